# Run by EmbedText.cmake at build time.
file(READ "${FILE}" text)
set(body "// Generated from ${NAME}; change the file there.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n")
string(APPEND body "std::string_view ${FUNCTION}() {\n    return R\"deliverdtext(${text})deliverdtext\";\n}\n\n")
string(APPEND body "}  // namespace ${NAMESPACE}\n")
file(WRITE "${OUTPUT}" "${body}")
