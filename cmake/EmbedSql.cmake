# Turns sql/<database>/NNNN_name.sql into one source file that defines
# deliverd::store::<database>_migrations(), declared in store/migration_plan.h.

function(deliverd_embed_sql database out)
  file(GLOB files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/sql/${database}/*.sql")
  list(SORT files)
  string(REPLACE ";" "$<SEMICOLON>" files_joined "${files}")
  set(output "${CMAKE_BINARY_DIR}/generated/${database}_migrations.cc")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DDATABASE=${database}" "-DFILES=${files_joined}" "-DOUTPUT=${output}"
            -P "${CMAKE_SOURCE_DIR}/cmake/embed_sql_script.cmake"
    DEPENDS ${files} "${CMAKE_SOURCE_DIR}/cmake/embed_sql_script.cmake"
    VERBATIM)
  set(${out} "${output}" PARENT_SCOPE)
endfunction()
