// For tests: a NATS server of one's own that can be killed, paused and started again.
#pragma once

#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

namespace deliverd::sink {

struct NatsServerOptions {
    std::string extra{};  // further lines of the configuration
    bool jetstream = true;
    bool tls = false;  // with a certificate that signs itself, for 127.0.0.1 and localhost
    std::string program = "nats-server";
};

class NatsServer {
public:
    using Options = NatsServerOptions;

    explicit NatsServer(const Options& options = {})
        : folder_(make_folder()), port_(free_port()), program_(options.program) {
        std::ofstream conf(folder_ / "server.conf");
        conf << "listen: \"127.0.0.1:" << port_ << "\"\n" << options.extra << "\n";
        if (options.jetstream) conf << "jetstream { store_dir: \"" << (folder_ / "streams").string() << "\" }\n";
        if (options.tls) {
            make_certificate();
            conf << "tls { cert_file: \"" << ca_file() << "\", key_file: \"" << (folder_ / "key.pem").string()
                 << "\" }\n";
        }
        conf.close();
        start();
    }
    ~NatsServer() {
        kill9();
        std::filesystem::remove_all(folder_);
    }
    NatsServer(const NatsServer&) = delete;
    NatsServer& operator=(const NatsServer&) = delete;

    /// `account` is "user:password@" or empty.
    [[nodiscard]] std::string url(const std::string& account = {}, const std::string& scheme = "nats",
                                  const std::string& host = "127.0.0.1") const {
        return scheme + "://" + account + host + ":" + std::to_string(port_);
    }
    [[nodiscard]] std::string ca_file() const { return (folder_ / "certificate.pem").string(); }
    [[nodiscard]] std::filesystem::path folder() const { return folder_; }

    void start() {
        pid_ = ::fork();
        if (pid_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            const std::string conf = (folder_ / "server.conf").string();
            const std::string log = (folder_ / "server.log").string();
            ::execlp(program_.c_str(), program_.c_str(), "-c", conf.c_str(), "-l", log.c_str(),
                     static_cast<char*>(nullptr));
            ::_exit(127);
        }
        wait_until([this] { return greets(); }, "NATS to start");
    }

    void kill9() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        int status = 0;
        ::waitpid(pid_, &status, 0);
        pid_ = -1;
    }

    void pause() {
        ::kill(pid_, SIGSTOP);
        wait_until([this] { return is_stopped(); }, "NATS to stand still");
    }
    void resume() const { ::kill(pid_, SIGCONT); }

private:
    static std::filesystem::path make_folder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "deliverd-nats-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
        return pattern;
    }

    static sockaddr_in loopback(int port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        return address;
    }

    static int free_port() {
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address = loopback(0);
        socklen_t size = sizeof address;
        if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
            ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
            throw std::runtime_error("no free port");
        }
        ::close(fd);
        return ntohs(address.sin_port);
    }

    template <typename Condition>
    void wait_until(Condition condition, const char* what) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (!condition()) {
            if (std::chrono::steady_clock::now() > end) throw std::runtime_error(std::string("not in time: ") + what);
            std::this_thread::yield();
        }
    }

    [[nodiscard]] bool greets() const {
        int status = 0;
        if (::waitpid(pid_, &status, WNOHANG) == pid_) throw std::runtime_error("nats-server ended: is it installed?");
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const sockaddr_in address = loopback(port_);
        char byte = 0;
        const bool greeted = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                             ::recv(fd, &byte, 1, 0) == 1;
        ::close(fd);
        return greeted;
    }

    [[nodiscard]] bool is_stopped() const {
        for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task")) {
            std::ifstream file(thread.path() / "stat");
            std::string line;
            std::getline(file, line);
            if (line.compare(line.rfind(')') + 2, 1, "T") != 0) return false;
        }
        return true;
    }

    void make_certificate() const {
        const std::string command =
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext "
            "subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout '" +
            (folder_ / "key.pem").string() + "' -out '" + ca_file() + "' 2>/dev/null";
        if (std::system(command.c_str()) != 0) throw std::runtime_error("openssl could not make a certificate");
    }

    std::filesystem::path folder_;
    int port_;
    std::string program_;
    pid_t pid_ = -1;
};

}  // namespace deliverd::sink
