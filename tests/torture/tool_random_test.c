/* Random command lines: whatever they ask, the tool ends by itself with 0, 1 or 2, and with 0 only
 * after a whole table. LAW_SEED chooses others; the long run is 10,000 of them. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#include "support/tool_fixture.h"

enum { MOST_WORDS = 24, SECONDS = 60 };

typedef struct dice {
  uint64_t state;
} dice;

static int roll(dice *d, int below)
{
  d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((d->state >> 33) % (uint64_t)below);
}

#define PICK(d, list) (list)[roll(d, (int)(sizeof(list) / sizeof *(list)))]

static const char *const files[] = { "t.csv",     "t.csv",    "u.csv",    "t.*", "none.csv",
                                     "empty.csv", "bad.csv",  "t.jsonl",  "-",   ".",
                                     "",          "head.csv", "t.parquet" };
static const char *const atoms[] = { "temp",
                                     "city",
                                     "day",
                                     "n",
                                     "temp",
                                     "3",
                                     "-1.5",
                                     "'Oslo'",
                                     "null",
                                     "true",
                                     "nan",
                                     "?",
                                     "x y",
                                     "\"odd name\"",
                                     "9223372036854775807",
                                     "count()",
                                     "sum(temp)",
                                     "1e308",
                                     "''",
                                     "é" };
static const char *const joints[] = { " + ", " * ",  " / ",   " // ", " % ",  " ** ",
                                      " > ", " == ", " and ", " or ", " in ", " is null",
                                      ", ",  " = ",  " - ",   "(" };
static const char *const calls[] = { "abs(",      "length(", "upper(", "year(",    "if(",
                                     "coalesce(", "round(",  "max(",   "median(",  "nunique(",
                                     "quantile(", "cast(",   "first(", "replace(", "slice(" };
static const char *const keys[] = { "city",           "temp desc", "day, city", "n nulls first",
                                    "city asc, temp", "nope",      "",          "city,",
                                    "temp + 1 desc" };

/* A text that may or may not be an expression. */
static void expression(dice *d, char *out, size_t size)
{
  size_t at = 0;
  int parts = 1 + roll(d, 5);
  for (int i = 0; i < parts && at + 64 < size; i++) {
    bool call = roll(d, 4) == 0;
    at +=
        (size_t)snprintf(out + at, size - at, "%s%s%s%s", i ? PICK(d, joints) : "",
                         call ? PICK(d, calls) : "", PICK(d, atoms), call && roll(d, 8) ? ")" : "");
  }
}

static const char *const options[] = {
  "--where",        "--where",        "--with",        "--select",   "--agg",    "--agg",
  "--by",           "--sort",         "--limit",       "--join",     "--format", "--out",
  "--rows",         "--devices",      "--how",         "--on",       "--skip",   "--types",
  "--separator",    "--comment",      "--bad-rows",    "--nulls",    "--from",   "--explain",
  "--quick",        "--help",         "--no-header",   "--nonsense", "--tail",   "--sample",
  "--sample",       "--seed",         "--distinct",    "--distinct", "--width",  "--names",
  "--unpack-limit", "--unique-names", "--literal-path"
};

static bool takes_number(const char *option)
{
  static const char *const all[] = { "--limit", "--tail", "--sample", "--seed",
                                     "--rows",  "--skip", "--width",  "--unpack-limit" };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(option, all[i])) return true;
  return false;
}

/* Keys of a join: an expression, or a pair of them. */
static void pair_of(dice *d, char *out, size_t size)
{
  char left[200], right[200];
  expression(d, left, sizeof left);
  expression(d, right, sizeof right);
  if (roll(d, 3)) snprintf(out, size, "%s", PICK(d, keys));
  else if (roll(d, 2)) snprintf(out, size, "cast(%s, 'text') = city", PICK(d, atoms));
  else snprintf(out, size, "%s = %s", left, right);
}

static void value_of(dice *d, const char *option, char *out, size_t size)
{
  static const char *const counts[] = { "0", "1", "3", "100", "-1", "x", "99999999999999999999" };
  static const char *const formats[] = { "table", "csv", "csv", "json", "md", "tsv", "xml" };
  static const char *const others[] = { ";",     "cpu:2", "cpu:8",   "cpu:0",    "left",
                                        "semi",  "skip",  "null",    "temp i64", "city date",
                                        "NA, -", "o.csv", "o.jsonl", "no/o.csv" };
  if (!strcmp(option, "--with")) {
    size_t at = (size_t)snprintf(out, size, "k = ");
    expression(d, out + at, size - at);
  } else if (!strcmp(option, "--on")) {
    pair_of(d, out, size);
  } else if (!strcmp(option, "--by") || !strcmp(option, "--sort")) {
    snprintf(out, size, "%s", PICK(d, keys));
  } else if (!strcmp(option, "--distinct")) {
    snprintf(out, size, "%s", roll(d, 3) ? PICK(d, keys) : "*");
  } else if (takes_number(option)) {
    snprintf(out, size, "%s", PICK(d, counts));
  } else if (!strcmp(option, "--format") || !strcmp(option, "--from")) {
    snprintf(out, size, "%s", PICK(d, formats));
  } else if (!strcmp(option, "--join")) {
    snprintf(out, size, "%s", PICK(d, files));
  } else if (strchr("wsa", option[2]) && strcmp(option, "--separator") != 0) {
    expression(d, out, size);
  } else {
    snprintf(out, size, "%s", PICK(d, others));
  }
}

typedef struct command_line {
  char room[MOST_WORDS][1024];
  char *word[MOST_WORDS + 1];
  int count;
} command_line;

static void add(command_line *c, const char *word)
{
  if (c->count >= MOST_WORDS) return;
  snprintf(c->room[c->count], sizeof c->room[0], "%s", word);
  c->word[c->count] = c->room[c->count];
  c->word[++c->count] = NULL;
}

static void make(dice *d, const char *tool, command_line *c)
{
  static const char *const commands[] = { "query",   "query", "query", "query", "schema",
                                          "convert", "query", "info",  "man",   "completion" };
  char text[512];
  c->count = 0;
  add(c, tool);
  add(c, PICK(d, commands));
  for (int i = roll(d, 6) ? 1 : roll(d, 3); i > 0; i--) add(c, PICK(d, files));
  for (int i = roll(d, 5); i > 0; i--) {
    const char *option = PICK(d, options);
    add(c, option);
    bool bare = !strcmp(option, "--explain") || !strcmp(option, "--quick") ||
                !strcmp(option, "--help") || !strcmp(option, "--no-header");
    if (bare) continue;
    value_of(d, option, text, sizeof text);
    add(c, text);
  }
}

/* The exit code, or -1 for a signal. */
static int run(const command_line *c)
{
  pid_t pid = fork();
  if (pid == 0) {
    int in = open("t.csv", O_RDONLY), out = open("out.txt", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int err = open("err.txt", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    alarm(SECONDS);
    execv(c->word[0], c->word);
    _exit(99);
  }
  int status;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Whether CSV on stdout is whole: lines of equal numbers of commas, the last one ended. The files
 * hold no commas inside fields. */
static bool whole(const char *text)
{
  int first = -1, commas = 0;
  for (; *text; text++) {
    commas += *text == ',';
    if (*text != '\n') continue;
    if (first < 0) first = commas;
    if (commas != first) return false;
    commas = 0;
    if (!text[1]) return true;
  }
  return first < 0;
}

static void write_files(void)
{
  static const struct {
    const char *name, *text;
  } all[] = { { "t.csv", "city,day,temp,n\nOslo,2013-01-01,-4.5,1\nRome,2013-01-01,12,2\n"
                         "Oslo,2013-01-02,NA,3\nRome,2013-01-02,14.5,\n" },
              { "u.csv", "city,odd name\nRome,1\nParis,2\n" },
              { "empty.csv", "" },
              { "head.csv", "city,temp\n" },
              { "bad.csv", "a,b\n1,2,3\n\"open\n" },
              { "t.jsonl", "{\"city\":\"Oslo\",\"temp\":1.5}\n{\"city\":null,\"n\":2}\n" },
              { "t.parquet", "PAR1PAR1" } };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    test_write(test_tmp(all[i].name), all[i].text, strlen(all[i].text));
}

static void describe(const command_line *c, char *out, size_t size)
{
  size_t at = 0;
  for (int i = 1; i < c->count && at < size; i++)
    at += (size_t)snprintf(out + at, size - at, " '%s'", c->word[i]);
}

TEST(random_command_lines)
{
  char tool[1024], text[4096];
  tool_path(tool, sizeof tool);
  write_files();
  CHECK(chdir(test_tmp(".")) == 0);
  const char *seed = getenv("LAW_SEED");
  dice d = { seed ? strtoull(seed, NULL, 10) : 1 };
  int count = getenv("TEST_QUICK") ? 200 : getenv("TOOL_LINES") ? atoi(getenv("TOOL_LINES")) : 2000;
  for (int i = 0; i < count; i++) {
    command_line c;
    make(&d, tool, &c);
    int code = run(&c);
    describe(&c, text, sizeof text);
    char *out = test_read("out.txt", NULL), *err = test_read("err.txt", NULL);
    if (code < 0 || code > 2) FAIL("tessera%s: ended with %d: %s", text, code, err);
    if (code > 0 && !*err) FAIL("tessera%s: exit status %d without a message", text, code);
    bool csv = false;
    for (int k = 1; k < c.count; k++)
      csv = csv || (!strcmp(c.word[k - 1], "--format") && !strcmp(c.word[k], "csv"));
    bool helps = strstr(text, "--help") || strstr(text, "--explain") || strstr(text, "--out");
    if (code == 0 && csv && !helps && !strcmp(c.word[1], "query") && !whole(out))
      FAIL("tessera%s: half a table: %s", text, out);
    free(out);
    free(err);
  }
}
