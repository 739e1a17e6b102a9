# One folder is one room is one target. `deliverd_room(lane LIBS …)` makes the library `deliverd_lane` from
# src/lane/*.cc, links the rooms that tools/rooms.txt allows it, and the tests src/lane/*_test.cc. Tests with a higher COST
# start earlier, so that a parallel run does not end with one long test.

set(DELIVERD_ROOMS_FILE "${CMAKE_SOURCE_DIR}/tools/rooms.txt")
set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${DELIVERD_ROOMS_FILE}")

function(deliverd_target_name room out)
  string(REPLACE "/" "_" flat "${room}")
  set(${out} "deliverd_${flat}" PARENT_SCOPE)
endfunction()

function(deliverd_allowed_rooms room out)
  file(STRINGS "${DELIVERD_ROOMS_FILE}" lines)
  foreach(line IN LISTS lines)
    if(line MATCHES "^${room}:(.*)$")
      string(STRIP "${CMAKE_MATCH_1}" uses)
      string(REPLACE " " ";" uses "${uses}")
      set(${out} "${uses}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "room '${room}' is not in tools/rooms.txt: add a line that says what it may use")
endfunction()

function(deliverd_room room)
  cmake_parse_arguments(ARG "" "COST" "LIBS;TEST_LIBS;EXTRA_SOURCES" ${ARGN})
  deliverd_target_name("${room}" target)
  deliverd_allowed_rooms("${room}" uses)
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
    target_link_libraries(${target} PUBLIC deliverd_public ${links} PRIVATE deliverd_warnings)
    target_link_libraries(${target} PUBLIC ${ARG_LIBS})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE deliverd_public ${links} ${ARG_LIBS})
  endif()

  if(tests)
    add_executable(${target}_test ${tests})
    target_link_libraries(${target}_test PRIVATE ${target} deliverd_warnings deliverd_failpoints_off ${ARG_TEST_LIBS}
                                                 GTest::gmock GTest::gtest_main ${DELIVERD_RAPIDCHECK})
    # What they test is optimised; they themselves are compiled more often than they run, and so in half the time.
    target_compile_options(${target}_test PRIVATE -O0)
    gtest_discover_tests(${target}_test TEST_PREFIX "${room}/" DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
                         PROPERTIES TIMEOUT 300 COST "${ARG_COST}")
  endif()
endfunction()
