# Turns a text file into one source file that defines `std::string_view <namespace>::<function>()`, declared in
# <header>.

function(deliverd_embed_text file header namespace function out)
  set(input "${CMAKE_SOURCE_DIR}/${file}")
  set(output "${CMAKE_BINARY_DIR}/generated/${function}.cc")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DNAME=${file}" "-DFILE=${input}" "-DHEADER=${header}" "-DNAMESPACE=${namespace}"
            "-DFUNCTION=${function}" "-DOUTPUT=${output}" -P "${CMAKE_SOURCE_DIR}/cmake/embed_text_script.cmake"
    DEPENDS "${input}" "${CMAKE_SOURCE_DIR}/cmake/embed_text_script.cmake"
    VERBATIM)
  set(${out} "${output}" PARENT_SCOPE)
endfunction()
