/* The command-line tool from outside. */
#ifndef TESTS_SUPPORT_TOOL_FIXTURE_H
#define TESTS_SUPPORT_TOOL_FIXTURE_H

#include <stddef.h>

/* build/<preset>, found from build/<preset>/tests/unit/X_test; and the tool there, without which
 * the test is skipped. */
void tool_build_path(char *path, size_t size);
void tool_path(char *path, size_t size);

/* What a person at a terminal sees of `bash -c command`, where "$T" is the tool and the folder is
 * the test's own; ^C is typed after so many seconds (0: never). The status is that of waitpid.
 * Returns the text, which the caller frees. */
char *tool_at_terminal(const char *command, double interrupt_after, int *status);

#endif
