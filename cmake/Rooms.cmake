# Each folder is one room and one target. `deliverd_room(lane LIBS …)` creates the library `deliverd_lane` from
# src/lane/*.cc, links the rooms that tools/rooms.txt allows, and creates the test program from src/lane/*_test.cc. Sources
# in src/lane/testing become `deliverd_lane_testing`, for the tests of this room and of the rooms that may use it.
# Statements in src/lane/sql become the header lane/statements.h (EmbedStatements.cmake). Tests with a higher COST start
# earlier, so that a parallel run does not end with one long test.

set(DELIVERD_ROOMS_FILE "${CMAKE_SOURCE_DIR}/tools/rooms.txt")
set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${DELIVERD_ROOMS_FILE}")

function(deliverd_target_name room out)
  string(REPLACE "/" "_" flat "${room}")
  set(${out} "deliverd_${flat}" PARENT_SCOPE)
endfunction()

# The rooms in a line of tools/rooms.txt, and whether the line exists.
function(deliverd_rooms_of line_name out)
  file(STRINGS "${DELIVERD_ROOMS_FILE}" lines)
  foreach(line IN LISTS lines)
    if(line MATCHES "^${line_name}:(.*)$")
      string(STRIP "${CMAKE_MATCH_1}" uses)
      string(REPLACE " " ";" uses "${uses}")
      set(${out} "${uses}" PARENT_SCOPE)
      set(${out}_FOUND TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${out} "" PARENT_SCOPE)
  set(${out}_FOUND FALSE PARENT_SCOPE)
endfunction()

function(deliverd_room room)
  cmake_parse_arguments(ARG "" "COST" "LIBS;TEST_LIBS;EXTRA_SOURCES" ${ARGN})
  deliverd_target_name("${room}" target)
  deliverd_rooms_of("${room}" uses)
  if(NOT uses_FOUND)
    message(FATAL_ERROR "room '${room}' is not in tools/rooms.txt: add a line that says what it may use")
  endif()
  set(links "")
  foreach(used IN LISTS uses)
    deliverd_target_name("${used}" used_target)
    list(APPEND links "${used_target}")
  endforeach()

  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${room}/*.cc")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|/main|/failpoint_o[nf]+)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(APPEND sources ${ARG_EXTRA_SOURCES})

  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC deliverd_source ${links} PRIVATE deliverd_warnings)
    target_link_libraries(${target} PUBLIC ${ARG_LIBS})
    deliverd_embed_statements("${room}" statements)
    target_include_directories(${target} PUBLIC ${statements})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE deliverd_source ${links} ${ARG_LIBS})
  endif()

  file(GLOB testing CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${room}/testing/*.cc")
  if(testing)
    add_library(${target}_testing STATIC ${testing})
    target_compile_options(${target}_testing PRIVATE -O0)
    target_link_libraries(${target}_testing PUBLIC ${target} GTest::gmock PRIVATE deliverd_warnings)
  endif()

  if(tests)
    deliverd_rooms_of("${room} tests" tests_use)
    set(test_links "")
    foreach(used IN LISTS room tests_use)
      deliverd_target_name("${used}" used_target)
      # Only when all rooms are declared is it known which of the two libraries exist.
      list(APPEND test_links "$<TARGET_NAME_IF_EXISTS:${used_target}_testing>" "${used_target}")
    endforeach()
    add_executable(${target}_test ${tests})
    target_link_libraries(${target}_test PRIVATE ${test_links} deliverd_warnings deliverd_failpoints_off ${ARG_TEST_LIBS}
                                                 GTest::gmock GTest::gtest_main ${DELIVERD_RAPIDCHECK})
    # The tested code is optimised. The tests are not, because that halves their compile time, and they are compiled often.
    target_compile_options(${target}_test PRIVATE -O0)
    gtest_discover_tests(${target}_test TEST_PREFIX "${room}/" DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
                         PROPERTIES TIMEOUT 300 COST "${ARG_COST}")
  endif()
endfunction()
