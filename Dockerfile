# deliverd as a container: docker build -t deliverd .
# Both stages are the same Debian, so that the second has the libraries that the first linked against. The bases are
# tags. docs/kubernetes.md says how to pin them by digest.
ARG BUILD_BASE=debian:12
ARG RUN_BASE=debian:12-slim
FROM ${BUILD_BASE} AS build
WORKDIR /src
# Packages before sources: they change less often.
COPY dev ./
COPY tools/packages.txt tools/
RUN ./dev setup build && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake --preset release && cmake --build build --target deliverd && strip build/deliverd

FROM ${RUN_BASE}
LABEL org.opencontainers.image.title="deliverd" \
      org.opencontainers.image.description="Delivers committed messages and manages dead letters" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
# The packages of the libraries that the program links, and the certificate authorities; apt adds what they need.
# tests/test_container.py compares this list with the program.
RUN apt-get update && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates \
        libboost-json1.81.0 \
        libc6 \
        libcurl4 \
        libfmt9 \
        libgcc-s1 \
        libnats3.4 \
        libpq5 \
        libprometheus-cpp-core1.0 \
        librabbitmq4 \
        librdkafka1 \
        libsqlite3-0 \
        libssl3 \
        libstdc++6 \
        libyaml-cpp0.7 && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/deliverd /usr/bin/deliverd
COPY LICENSE /usr/share/doc/deliverd/LICENSE
# The user needs no entry in /etc/passwd. The program writes nothing to its root file system, except SQLite's file.
USER 65532:65532
WORKDIR /tmp
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["deliverd"]
CMD ["serve"]
