/* The command-line tool from outside: what it prints, where, and how it exits. */
#include "harness.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "support/tool_fixture.h"

struct outcome {
  int code;
  char *out, *err;
};

/* Runs "tessera ARGUMENTS" by the shell, in a folder of its own. */
static struct outcome run(const char *arguments)
{
  char tool[1024], command[4096];
  struct outcome o;
  tool_path(tool, sizeof tool);
  int length = snprintf(command, sizeof command, "cd '%s' && '%s' %s >out.txt 2>err.txt",
                        test_tmp("."), tool, arguments);
  CHECK(length < (int)sizeof command);
  int status = system(command);
  CHECK(WIFEXITED(status));
  o.code = WEXITSTATUS(status);
  o.out = test_read(test_tmp("out.txt"), NULL);
  o.err = test_read(test_tmp("err.txt"), NULL);
  return o;
}

/* Runs it and checks the exit code, and that parts stand in stdout and stderr; "" means empty. */
static void expect(const char *arguments, int code, const char *out, const char *err)
{
  struct outcome o = run(arguments);
  if (o.code != code)
    FAIL("tessera %s: exit status %d, expected %d; stdout: %s; stderr: %s", arguments, o.code, code,
         o.out, o.err);
  if (*out) CHECK_STR_HAS(o.out, out);
  else CHECK_STR(o.out, "");
  if (*err) CHECK_STR_HAS(o.err, err);
  else CHECK_STR(o.err, "");
  free(o.out);
  free(o.err);
}

static void write_table(void)
{
  static const char text[] = "city,day,temp\n"
                             "Oslo,2013-01-01,-4.5\n"
                             "Rome,2013-01-01,12.0\n"
                             "Oslo,2013-01-02,NA\n"
                             "Rome,2013-01-02,14.5\n";
  test_write(test_tmp("t.csv"), text, sizeof text - 1);
}

TEST(help_goes_to_stdout)
{
  expect("--help", 0, "usage: tessera COMMAND", "");
  expect("query --help", 0, "examples:", "");
  expect("schema --help", 0, "usage: tessera schema", "");
  expect("info --help", 0, "usage: tessera info", "");
  expect("--version", 0, "tessera 0.", "");
}

TEST(help_fits_a_terminal)
{
  static const char *const commands[] = { "query --help",    "convert --help", "schema --help",
                                          "info --help",     "man --help",     "completion --help",
                                          "pipeline --help", "--help" };
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    struct outcome o = run(commands[i]);
    char *examples = strstr(o.out, "\nexamples:");
    if (examples) *examples = 0;
    for (const char *at = o.out; *at; at += *at == '\n') {
      size_t length = strcspn(at, "\n");
      if (length > 80) FAIL("%s: wider than 80: %.*s", commands[i], (int)length, at);
      at += length;
    }
    free(o.out);
    free(o.err);
  }
}

TEST(wrong_command_lines_exit_with_2)
{
  expect("", 2, "", "usage: tessera COMMAND");
  expect("guess", 2, "", "there is no command 'guess'");
  expect("quary t.csv", 2, "", "there is no command 'quary'; did you mean 'query'?");
  expect("query", 2, "", "which file?");
  expect("query t.csv --wear 'a > 1'", 2, "", "there is no option '--wear'");
  expect("query t.csv --wher 'a > 1'", 2, "", "there is no option '--wher'; did you mean --where?");
  expect("query t.csv --order-by a", 2, "", "did you mean --sort?");
  expect("query t.csv --where", 2, "", "a value is missing after '--where'");
  expect("query t.csv --explain=yes", 2, "", "takes no value");
  expect("query t.csv --limit=-3", 2, "", "--limit takes a number of rows, not '-3'");
  expect("query t.csv --limit 99999999999999999999", 2, "", "--limit takes a number of rows");
  expect("query t.csv --tail -1", 2, "", "--tail takes a number of rows, not '-1'");
  expect("query t.csv --tail 2 --tail 2", 2, "", "given too often: '--tail'");
  expect("query t.csv --sample", 2, "", "a value is missing after '--sample'");
  expect("query t.csv --sample 0.5", 2, "", "--sample takes a number of rows, not '0.5'");
  expect("query t.csv --sample 9223372036854775808", 2, "", "--sample takes a number of rows");
  expect("query t.csv --sample 3 --seed -1", 2, "", "--seed takes a whole number of 0 or more");
  expect("query t.csv --seed 3", 2, "", "--seed needs --sample");
  expect("query t.csv --limit 3 --tail 2", 2, "", "give one of --limit, --tail and --sample");
  expect("query t.csv --sample 3 --tail 2", 2, "", "give one of --limit, --tail and --sample");
  expect("query t.csv --unique city", 2, "", "did you mean --distinct?");
  expect("query t.csv --distinct a --distinct b", 2, "", "given too often: '--distinct'");
  expect("query t.csv --skip x", 2, "", "--skip takes a number of lines, not 'x'");
  expect("query t.csv --agg 'count()' --agg 'sum(a)'", 2, "", "--agg");
  expect("query t.csv --by city", 2, "", "--by needs --agg");
  expect("query t.csv --join u.csv", 2, "", "each --join needs an --on");
  expect("query t.csv --how left", 2, "", "--how needs a --join");
  expect("query t.csv --format xml", 2, "",
         "--format takes one of: table csv tsv json md; not 'xml'");
  expect("query t.csv --separator ab", 2, "", "--separator takes one character");
  expect("convert t.csv", 2, "", "the files to read, then the one to write");
  expect("completion tcsh", 2, "", "bash, zsh or fish");
  expect("completion bash --from csv", 2, "", "completion: there is no option '--from'");
  expect("man --devices cpu:2", 2, "", "man: there is no option '--devices'");
  expect("query t.csv --with '= 2'", 2, "", "--with takes 'NAME = E'");
  expect("query t.csv --with 'a == 2'", 2, "", "--with takes 'NAME = E'");
  expect("query t.csv --with '\"a = 2'", 2, "", "--with takes 'NAME = E'");
  expect("query t.csv --with '\"\" = 2'", 2, "", "--with takes 'NAME = E'");
  expect("schema t.csv --agg 'count()'", 2, "", "there is no option '--agg'");
  expect("info t.csv", 2, "", "takes no file, found 't.csv'");
}

TEST(failures_exit_with_1)
{
  write_table();
  expect("query none.csv", 1, "", "none.csv");
  expect("schema none.csv", 1, "", "none.csv");
  expect("info --devices gpu:x", 1, "", "gpu:x");
  expect("query t.csv --devices cpu:0", 1, "", "tessera: --devices: ");
  expect("query t.csv --where 'tmp > 1'", 1, "", "did you mean 'temp'");
  expect("query t.csv --where 'temp >'", 1, "", "^");
  expect("query t.csv --agg 'sum(city)'", 1, "", "tessera: ");
  expect("query t.csv --by town --agg 'count()'", 1, "", "town");
  expect("query t.csv --distinct town", 1, "", "tessera: --distinct: no column 'town'");
  expect("query t.csv --distinct ''", 1, "", "tessera: --distinct: the expression is empty");
  expect("query t.csv --distinct 'city desc'", 1, "", "rows keep their order here");
  expect("query t.csv --select day --distinct city", 1, "", "no column 'city'");
}

TEST(messages_leave_out_the_source_line)
{
  write_table();
  struct outcome o = run("query t.csv --where 'tmp > 1'");
  CHECK(strncmp(o.err, "tessera: ", 9) == 0);
  CHECK(!strstr(o.err, "chain.c"));
  CHECK_STR_HAS(o.err, "--where: no column 'tmp'");
  CHECK(!strstr(o.err, "tsr_"));
  free(o.out);
  free(o.err);
}

TEST(a_full_disk_is_a_failure)
{
  write_table();
  struct outcome o = run("query t.csv >/dev/full; code=$?; [ $code = 1 ] ");
  CHECK_I64(o.code, 0);
  free(o.out);
  free(o.err);
}

TEST(schema_and_info)
{
  write_table();
  expect("schema t.csv --quick", 0, "temp", "");
  expect("schema t.csv --quick", 0, "date", "");
  expect("schema t.csv --format csv", 0,
         "column,type,nulls,distinct,min,max\n"
         "city,text,0,2,Oslo,Rome\n"
         "day,date,0,2,2013-01-01,2013-01-02\n"
         "temp,f64,1,3,-4.5,14.5\n",
         "");
  expect("info --devices cpu:3", 0, "devices   3 (cpu:3)", "");
}

TEST(query_prints_tables)
{
  write_table();
  expect("query t.csv --width 22", 0, "│ city │ … │ temp │\n", "");
  expect("query t.csv --width 0", 0, "│ city │ day        │ temp │\n", "");
  expect("query t.csv --width x", 2, "", "--width takes a number of characters, not 'x'");
  expect("query t.csv", 0, "-4.5", "");
  expect("query t.csv --where 'temp > 0' --agg 'n = count(), total = sum(temp)'", 0, "26.5", "");
  expect(
      "query t.csv --with '\"a\"\"b\" = 1' --with '\"c = d\"=2' --select '\"a\"\"b\", \"c = d\"' "
      "--limit 1 --format csv",
      0, "\"a\"\"b\",c = d\n1,2\n", "");
  expect("query t.csv --with 'k = temp + 273.15' --select 'city, k' --limit 1", 0, "268.65", "");
  expect("query t.csv t.csv --agg 'n = count()'", 0, "8", "");
  expect("query --limit 1 -- t.csv", 0, "Oslo", "");
}

/* Runs a query and compares all that it prints. */
static void prints(const char *arguments, const char *out)
{
  struct outcome o = run(arguments);
  CHECK_STR(o.err, "");
  CHECK_STR(o.out, out);
  CHECK_I64(o.code, 0);
  free(o.out);
  free(o.err);
}

TEST(query_sorts_joins_and_formats)
{
  write_table();
  static const char places[] = "name,country\nRome,Italy\nOslo,Norway\n";
  test_write(test_tmp("places.csv"), places, sizeof places - 1);
  prints("query t.csv --sort 'temp desc nulls first' --format csv",
         "city,day,temp\nOslo,2013-01-02,\nRome,2013-01-02,14.5\nRome,2013-01-01,12.0\n"
         "Oslo,2013-01-01,-4.5\n");
  prints("query t.csv --join places.csv --on 'city = name' --by country --agg 'n = count(temp)' "
         "--sort country --format json",
         "{\"country\":\"Italy\",\"n\":2}\n{\"country\":\"Norway\",\"n\":1}\n");
  prints("query t.csv --by city --agg 'warm = max(temp)' --format md",
         "| city | warm |\n|---|--:|\n| Oslo | -4.5 |\n| Rome | 14.5 |\n");
  prints("query t.csv --with 'f = temp * 2' --where 'f > 24' --select f --format csv", "f\n29.0\n");
  prints("query t.csv --where 'temp > 0' --with 'temp = -temp' --where 'temp < -13' --select temp "
         "--format csv",
         "temp\n-14.5\n");
  prints("query - --from csv --format tsv --limit 1 <t.csv",
         "city\tday\ttemp\nOslo\t2013-01-01\t-4.5\n");
  prints("query t.csv --limit 1 --out one.jsonl", "");
  prints("query one.jsonl --format csv", "city,day,temp\nOslo,2013-01-01,-4.5\n");
  prints("convert t.csv t.csv.gz", "");
  prints("query t.csv.gz --agg 'n = count()' --format csv", "n\n4\n");
  prints("query 't.*' --where 'temp > 13' --select 'temp' --format csv", "temp\n14.5\n14.5\n");
  expect("query t.csv --out t.xyz", 2, "", "does not say its format");
  expect("query t.csv --out none/t.csv", 1, "", "none/t.csv");
}

/* Lines of a file that the tool wrote, unpacked by `reader` (a shell command). */
static int64_t lines_of(const char *reader, const char *name)
{
  char command[4096];
  snprintf(command, sizeof command, "cd '%s' && %s '%s' >lines.txt", test_tmp("."), reader, name);
  CHECK_I64(system(command), 0);
  char *text = test_read(test_tmp("lines.txt"), NULL);
  int64_t lines = 0;
  for (const char *at = text; *at; at++) lines += *at == '\n';
  free(text);
  return lines;
}

TEST(a_file_gets_all_rows_or_none)
{
  enum { ROWS = 1458 };
  static const struct {
    const char *name, *options, *reader;
    int64_t more; /* lines beside the rows */
  } files[] = { { "o.csv", "", "cat", 1 },
                { "o.tsv.gz", "", "gzip -dc", 1 },
                { "o.json", "", "cat", 2 },
                { "o.json.gz", "", "gzip -dc", 2 },
                { "o.jsonl", "", "cat", 0 },
                { "o.ndjson", "", "cat", 0 },
                { "o.md", "", "cat", 2 },
                { "o.md.gz", "", "gzip -dc", 2 },
                { "o.txt", "--format table", "cat", 6 },
                { "o.txt.gz", "--format table", "gzip -dc", 6 },
                { "odd.name", "--format json", "cat", 0 },
                { "odd", "--format md", "cat", 2 } };
  char arguments[1024];
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(arguments, sizeof arguments, "query '%s' --out %s %s",
             test_file("../examples/data/airports.csv"), files[i].name, files[i].options);
    expect(arguments, 0, "", "");
    int64_t lines = lines_of(files[i].reader, files[i].name);
    if (lines != ROWS + files[i].more)
      FAIL("%s: %lld lines, expected %lld", files[i].name, (long long)lines,
           (long long)(ROWS + files[i].more));
  }
  write_table();
  static const char *const none[] = { "o.txt", "o", "o.gz", "o.xml", "o.csv.bz2", "-o", "o.TXT" };
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    snprintf(arguments, sizeof arguments, "query t.csv --out=n%s", none[i]);
    expect(arguments, 2, "",
           "does not say its format; end it in .csv, .tsv, .json, .jsonl or .md, or give --format");
    snprintf(arguments, sizeof arguments, "n%s", none[i]);
    CHECK(access(test_tmp(arguments), F_OK) != 0);
  }
  expect("convert t.csv o.xml", 2, "", "end it in .csv, .tsv, .json, .jsonl or .md, or give");
  expect("query t.csv --out few.txt --format table --rows 2", 0, "", "");
  CHECK_I64(lines_of("cat", "few.txt"), 6 + 3);
}

TEST(json_in_a_file_is_what_its_name_says)
{
  write_table();
  prints("query t.csv --select 'city, temp' --limit 2 --out o.json", "");
  char *text = test_read(test_tmp("o.json"), NULL);
  CHECK_STR(text, "[\n{\"city\":\"Oslo\",\"temp\":-4.5},\n{\"city\":\"Rome\",\"temp\":12.0}\n]\n");
  free(text);
  prints("query t.csv --limit 0 --out o.json", "");
  text = test_read(test_tmp("o.json"), NULL);
  CHECK_STR(text, "[]\n");
  free(text);
  prints("convert t.csv o.jsonl", "");
  CHECK_I64(lines_of("cat", "o.jsonl"), 4);
}

TEST(query_joins_on_expressions)
{
  write_table();
  static const char codes[] = "code,town\n1,OSLO\nx,ROME\n";
  test_write(test_tmp("codes.csv"), codes, sizeof codes - 1);
  prints("query t.csv --join codes.csv --on 'upper(city) = town' "
         "--select 'temp, code' --format csv",
         "temp,code\n-4.5,1\n12.0,x\n,1\n14.5,x\n");
  prints("query t.csv --join codes.csv --on \"temp // 12 = try_cast(code, 'i64')\" "
         "--select 'temp, town' --format csv",
         "temp,town\n12.0,OSLO\n14.5,OSLO\n");
  expect("query t.csv --join codes.csv --on 'temp = code'", 1, "",
         "tessera: --on: the key is f64 on the left and text on the right; write \"temp = "
         "cast(code, 'f64')\"\n");
  expect("query t.csv --join codes.csv --on \"temp = cast(code, 'f64')\"", 1, "",
         "cast(code, 'f64'): 'x' in row 1 of codes.csv is no f64; try_cast gives null there");
  expect("query t.csv --join codes.csv --on 'temp == code'", 1, "", "with one '='");
}

TEST(query_chooses_rows)
{
  write_table();
  prints("query t.csv --tail 2 --format csv",
         "city,day,temp\nOslo,2013-01-02,\nRome,2013-01-02,14.5\n");
  prints("query t.csv --sort temp --tail 1 --select temp --format csv", "temp\n\"\"\n");
  prints("query t.csv --tail 0 --format csv", "city,day,temp\n");
  prints("query t.csv --tail 9223372036854775807 --select city --format csv",
         "city\nOslo\nRome\nOslo\nRome\n");
  prints("query t.csv --distinct city --format csv",
         "city,day,temp\nOslo,2013-01-01,-4.5\nRome,2013-01-01,12.0\n");
  prints("query t.csv t.csv --distinct '*' --format csv --select city",
         "city\nOslo\nRome\n"); /* of the selected columns */
  prints("query t.csv t.csv --distinct '*' --agg 'n = count()' --format csv", "n\n8\n");
  prints("query t.csv t.csv --distinct 'city, day' --sort 'day desc, city' --limit 3 --select "
         "'city, day' --format csv",
         "city,day\nOslo,2013-01-02\nRome,2013-01-02\nOslo,2013-01-01\n");
  prints("query t.csv --select city --distinct '*' --format csv", "city\nOslo\nRome\n");
  prints("query t.csv --sample 0 --format csv", "city,day,temp\n");
  prints("query t.csv --sample 9223372036854775807 --select city --format csv",
         "city\nOslo\nRome\nOslo\nRome\n");
  prints("query t.csv --where 'temp > 99' --sample 3 --format csv", "city,day,temp\n");
  test_write(test_tmp("head.csv"), "city,temp\n", 10);
  prints("query head.csv --distinct '*' --tail 3 --format csv", "city,temp\n");
  prints("query head.csv --sample 3 --seed 5 --format csv", "city,temp\n");
}

/* A sample is the same in every run and on any number of devices; another seed draws another. */
TEST(samples_repeat)
{
  char arguments[256];
  struct outcome first = { 0 };
  static const char *const again[] = { "", "--devices cpu:3", "--seed 0", "--devices cpu:8" };
  for (int i = 0; i < 5; i++) {
    snprintf(arguments, sizeof arguments, "query '%s' --sample 7 --format csv %s",
             test_file("../examples/data/airlines.csv"), i < 4 ? again[i] : "--seed 1");
    struct outcome o = run(arguments);
    int lines = 0;
    CHECK_I64(o.code, 0);
    for (const char *at = o.out; *at; at++) lines += *at == '\n';
    CHECK_I64(lines, 8);
    if (i) CHECK((strcmp(o.out, first.out) == 0) == (i < 4));
    free(o.err);
    if (i) free(o.out);
    else first.out = o.out;
  }
  free(first.out);
}

TEST(colours_only_where_asked)
{
  write_table();
  struct outcome o = run("query t.csv");
  CHECK(!strchr(o.out, '\033'));
  free(o.out);
  free(o.err);
  setenv("CLICOLOR_FORCE", "1", 1);
  o = run("query t.csv");
  CHECK_STR_HAS(o.out, "\033[1mcity");
  free(o.out);
  free(o.err);
  setenv("NO_COLOR", "1", 1);
  o = run("query t.csv");
  CHECK(!strchr(o.out, '\033'));
  free(o.out);
  free(o.err);
}

TEST(manual_page_and_completion_come_of_the_tables)
{
  struct outcome o = run("man");
  char *page = test_read(test_file("../docs/tessera.1"), NULL);
  CHECK_STR(o.out, page);
  free(page);
  free(o.out);
  free(o.err);
  expect("completion bash", 0, "complete -o filenames -F _tessera tessera", "");
  expect("completion zsh", 0, "bashcompinit", "");
  expect("completion bash", 0, "completion:-*) COMPREPLY=($(compgen -W ' --help' ", "");
  expect("completion fish", 0, "_from completion' -x -a 'bash zsh fish'", "");
}

/* The functions there are stand in the help and in the manual, and no line is wider than a
 * terminal. */
TEST(expressions_have_a_page)
{
  static const char *const names[] = {
#define FN(id, name, least, most, sort) name,
#define AGG(id, name, least, most) name,
#include "frame/expr/functions.def"
#undef FN
#undef AGG
  };
  struct outcome o = run("help expressions"), page = run("man");
  CHECK_I64(o.code, 0);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char call[40];
    snprintf(call, sizeof call, " %s(", names[i]);
    CHECK_STR_HAS(o.out, call);
    CHECK_STR_HAS(page.out, call);
  }
  for (const char *at = o.out; *at; at += strcspn(at, "\n") + 1) CHECK(strcspn(at, "\n") <= 80);
  expect("help query", 0, "usage: tessera query", "");
  expect("query --help", 0, "help expressions", "");
  expect("help expression", 0, "aggregates", "");
  expect("help nothing", 2, "", "there is no command 'nothing'");
  free(o.out);
  free(o.err);
  free(page.out);
  free(page.err);
}

/* Everything printed but the plan is the same on any number of devices. */
TEST(devices_do_not_show_in_results)
{
  write_table();
  const char *query = "query t.csv --by city --agg 'n = count(), mean(temp)' --devices cpu:%d";
  char arguments[256];
  char *first = NULL;
  for (int devices = 1; devices <= 8; devices += devices < 3 ? 1 : 5) {
    snprintf(arguments, sizeof arguments, query, devices);
    struct outcome o = run(arguments);
    CHECK_I64(o.code, 0);
    CHECK_STR_HAS(o.out, "Rome");
    if (first) CHECK_STR(o.out, first);
    free(o.err);
    if (first) free(o.out);
    else first = o.out;
  }
  free(first);
}

TEST(explain_runs_nothing)
{
  write_table();
  struct outcome o = run("query t.csv --agg 'sum(temp)' --devices cpu:2 --explain");
  CHECK_I64(o.code, 0);
  CHECK_STR_HAS(o.out, "all-reduce over data=2: ");
  CHECK(!strstr(o.out, "chain.c"));
  free(o.out);
  free(o.err);
}

/* `make demo`, made small; not on a terminal, so there are no bars and no colours. */
TEST(demo_runs)
{
  char build[1024], command[4096];
  tool_build_path(build, sizeof build);
  snprintf(command, sizeof command,
           "TESSERA_DEMO_ROWS=100000 TESSERA_DEMO_EPOCHS=4 '%s' '%s' >'%s' 2>&1",
           test_file("../scripts/demo.sh"), build, test_tmp("out.txt"));
  CHECK_I64(system(command), 0);
  char *out = test_read(test_tmp("out.txt"), NULL);
  CHECK_STR_HAS(out, "counted: 1 kernel, 2 collectives");
  CHECK_STR_HAS(out, "the same bits on 8, 2 and 1 devices");
  CHECK_STR_HAS(out, "with .reproducible products all losses have the same bits");
  CHECK(!strchr(out, '\r') && !strchr(out, '\033'));
  int lines = 0;
  for (const char *at = out; *at; at++) lines += *at == '\n';
  CHECK(lines <= 140);
  free(out);
}

/* Words of SQL and of other tools, and what is said of them. */
TEST(words_of_others_have_hints)
{
  static const char *const tries[][2] = {
    { "lag(temp)", "windows" },
    { "rank(temp)", "windows" },
    { "rolling_mean(temp, 3)", "windows" },
    { "sum(temp) over (partition by city)", "windows" },
    { "count(distinct city)", "nunique(x)" },
    { "case when temp > 1 then 2 end", "if(condition, a, b)" },
    { "cast(temp as text)", "cast(x, 'i64')" },
    { "city ilike 'x'", "contains(lower(x), 'a')" },
    { "city::text", "cast(x, 'i64')" },
    { "temp == None", "'null'" },
    { "temp in [1, 2]", "x in (1, 2)" },
    { "temp.sum()", "sum(x)" },
    { "isnull(temp)", "x is null" },
    { "string_agg(city)", "not there yet" },
    { "temp between 1 and 2", "between(x, a, b)" },
    { "distinct city", "nunique(x)" },
  };
  write_table();
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
    char command[200];
    snprintf(command, sizeof command, "query t.csv --with \"z = %s\"", tries[i][0]);
    expect(command, 1, "", tries[i][1]);
  }
  expect("query t.csv --sort 2", 1, "", "columns have names here, and no numbers");
  expect("query t.csv --by 1 --agg 'count()'", 1, "", "--by: a key that is a value");
  expect("query t.csv --sort \"'city' desc\"", 1, "", "a name is written without quotes");
  expect("qeury t.csv", 2, "", "did you mean 'query'?");
  expect("schmea t.csv", 2, "", "did you mean 'schema'?");
  expect("query t.csv --slect city", 2, "", "did you mean --select?");
}

/* No call, field or constant of C stands in what the tool says. */
TEST(messages_have_no_names_of_c)
{
  static const char *const wrong[] = {
    "query t.csv --where 'sum(temp) > 1'",
    "query t.csv --where nothing",
    "query t.csv --rename 'nothing = x'",
    "query t.csv --join t.csv --on city --suffix _x --join t.csv --on city --suffix _x",
    "query t.csv --join t.csv --on 'city = temp'",
    "query t.csv none.csv",
    "query t.csv e.jsonl",
    "query e.jsonl",
    "query e.jsonl --types 'a foo'",
    "query l.json --from csv",
    "query t.csv --types 'nothing i64'",
    "query t.csv --types 'city i64'",
    "query t.csv l.json",
    "query t.csv c.json --types 'temp f64'",
    "pipeline l.json --from csv",
    "pipeline none.csv",
    "pipeline bad.tfrecord",
    "query t.csv --limit 1 --out /nowhere/x.csv",
    "query t.csv --devices cpu:0",
    "query t.csv --agg 'max(temp), max(temp)'",
    "query t.csv --with 'city = 1 +'",
    "query short.csv",
    "query short.csv --unpack-limit 1",
    "schema none.csv",
    "convert t.csv x.parquet",
  };
  write_table();
  test_write(test_tmp("e.jsonl"), "{\"\":1}\n", 7);
  test_write(test_tmp("l.json"), "{\"a\":1}\n", 8);
  test_write(test_tmp("short.csv"), "a,b\n1\n", 6);
  test_write(test_tmp("bad.tfrecord"), "no records here", 15);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct outcome o = run(wrong[i]);
    if (!o.code) FAIL("tessera %s: is no mistake", wrong[i]);
    bool field = strstr(o.err, " .") && islower((unsigned char)strstr(o.err, " .")[2]);
    field = field && !strstr(o.err, "end it in .csv"); /* endings of files */
    if (strstr(o.err, "tsr_") || strstr(o.err, "TSR_") || strstr(o.err, "the option ") || field)
      FAIL("tessera %s says: %s", wrong[i], o.err);
    free(o.out);
    free(o.err);
  }
}

/* Columns of one name and two types: the way out is an option that works. */
TEST(files_of_other_types_are_brought_together)
{
  test_write(test_tmp("n.csv"), "a\nx\n", 4);
  test_write(test_tmp("n.jsonl"), "{\"a\": 1}\n", 9);
  expect("query n.csv n.jsonl", 1, "", "give it one type with --types");
  expect("query n.csv n.jsonl --types 'a text' --format csv", 0, "a\nx\n1\n", "");
}

/* Three and four files, each with names of its own, or given ones; types go to whose columns they
 * are of. */
TEST(several_files_are_joined)
{
  static const char flights[] = "id,from,to\n1,A,B\n2,B,C\n",
                    ports[] = "code,name\nA,Oslo\nB,Rome\nC,Bonn\n";
  static const char carriers[] = "id,name,zip\n1,x,021\n2,y,022\n";
  test_write(test_tmp("f.csv"), flights, sizeof flights - 1);
  test_write(test_tmp("p.csv"), ports, sizeof ports - 1);
  test_write(test_tmp("c.csv"), carriers, sizeof carriers - 1);
  expect("query f.csv --join p.csv --on 'from = code' --join p.csv --on 'to = code' --join p.csv "
         "--on 'to = code' --format csv",
         0, "id,from,to,name,name_right2,name_right3\n1,A,B,Oslo,Rome,Rome\n2,B,C,Rome,Bonn,Bonn\n",
         "");
  expect("query f.csv --join p.csv --on 'from = code' --rename 'name = origin' --join p.csv "
         "--on 'to = code' --rename 'name = dest' --join c.csv --on id --types 'zip i64, id i32' "
         "--suffix _x --where \"dest != 'Rome'\" --rename 'zip = z' --format csv",
         0, "id,from,to,origin,dest,name,z\n2,B,C,Rome,Bonn,y,22\n", "");
  expect("query f.csv --join p.csv --on 'from = code' --suffix _a --join p.csv --on 'to = code' "
         "--suffix _b --select 'name, name_b' --format csv",
         0, "name,name_b\nOslo,Rome\nRome,Bonn\n", "");
  expect("query f.csv --rename 'from = to, to = from' --format csv", 0,
         "id,to,from\n1,A,B\n2,B,C\n", "");
  expect("query - --join c.csv --on id --types 'zip text, from text' --format csv <f.csv", 0,
         "id,from,to,name,zip\n1,A,B,x,021\n2,B,C,y,022\n", "");
  expect("query f.csv --join c.csv --on id --types 'zap i64'", 1, "",
         "f.csv: the list of types names \"zap\"");
  expect("query f.csv --suffix _x", 2, "", "--suffix needs a --join");
}

/* What somebody who comes from another tool would try first. */
TEST(first_tries_are_told_what_to_write)
{
  write_table();
  test_write(test_tmp("s.csv"), "a;b\n1;2\n", 8);
  expect("query t.csv --select 'sum(temp)'", 1, "", "cannot stand here; aggregate with --agg");
  expect("query t.csv --where 'city == \"Rome\"'", 1, "", "\"...\" is a name, a text is '...'");
  expect("query t.csv --agg 'avg(temp)'", 1, "", "there is no function 'avg'; it is 'mean' here");
  expect("query t.csv --where 'temp is not nan'", 1, "", "write not is_nan(x)");
  expect("query t.csv --with 'k = concat(city, temp)'", 1, "",
         "--with: concat needs text, found f64; write cast(temp, 'text')");
  test_write(test_tmp("a.json"), "[{\"a\":1},\n {\"a\":2}]\n", 20);
  test_write(test_tmp("b.json"), "\n  [\n{\"a\":1}\n]\n", 15);
  test_write(test_tmp("c.json"), "{\"a\":1}\n[1]\n", 12);
  test_write(test_tmp("d.json"), "{\n \"a\":1\n}\n", 12);
  expect("query a.json --format csv", 0, "a\n1\n2\n", "");
  expect("query b.json --format csv", 0, "a\n1\n", "");
  expect("query - --from json --format csv <a.json", 0, "a\n1\n2\n", "");
  expect("query c.json", 1, "", "c.json:2:1: a row must be an object, {...}: '[1]'");
  expect("query d.json", 1, "", "each line holds a whole one, as jq -c . writes it");
  static const char odd[] = "odd name,day\n1,2013-05-01\n2,2013-07-01\n";
  test_write(test_tmp("odd.csv"), odd, sizeof odd - 1);
  expect("query odd.csv --where 'odd name > 1'", 1, "",
         "a column whose name has blanks is written \"odd name\"");
  expect("query odd.csv --agg 'sum(odd name)'", 1, "", "is written \"odd name\"");
  expect("query odd.csv --where 'day > 2013-06-01'", 1, "", "for a date write it in single quotes");
  expect("query odd.csv --where 'day > 2013 - 06 - 01'", 1, "", "cannot compare date with i64");
  expect("query t.csv --where 'f > 1' --with 'f = temp * 2'", 1, "",
         "--with makes 'f' after that; put it before");
  expect("query t.csv --where 'm > 1' --agg 'm = max(temp)'", 1, "", "--agg makes 'm' after that");
  expect("query t.csv --by city --agg 'count()' --sort 'count() desc'", 1, "",
         "the column of this name is written \"count()\"");
  expect("query t.csv --agg 'count(*)'", 1, "", "to count rows write count()");
  expect("query t.csv --where 'temp BETWEEN 1 AND 2'", 1, "", "write between(x, a, b)");
  expect("query t.csv --where \"city LIKE 'R%'\"", 1, "", "write starts_with(x, 'a')");
  expect("query '[ot]*.csv'", 1, "", "; narrow the pattern, or query them one by one");
  expect("convert t.csv t.xyz", 2, "", "or give --format");
  prints("convert t.csv t.xyz --format csv", "");
  expect("query s.csv --format csv", 0, "1,2", "s.csv: fields are separated by ';'");
  expect("query t.csv --out t.parquet", 2, "", "(Parquet comes later)");
}

TEST(shardings_are_drawn)
{
  struct outcome o = run("shard 'f32[8192,1024]@(data,model)' data=4,model=2");
  CHECK_STR(o.out, "┌───────┬───────┐\n"
                   "│ CPU 0 │ CPU 1 │\n"
                   "├───────┼───────┤\n"
                   "│ CPU 2 │ CPU 3 │\n"
                   "├───────┼───────┤\n"
                   "│ CPU 4 │ CPU 5 │\n"
                   "├───────┼───────┤\n"
                   "│ CPU 6 │ CPU 7 │\n"
                   "└───────┴───────┘\n"
                   "each of the devices: f32[2048,512], 4 MiB\n"
                   "the array: f32[8192,1024], 32 MiB on 8 devices\n");
  free(o.out);
  free(o.err);
  expect("shard 'f32[10]@(x)' x=4", 0,
         "the first device: f32[3], 12 bytes; the last: f32[2], 8 bytes", "");
  expect("shard 'bool[9]' x=4", 0, "bool[9], 2 bytes, 4 copies of it on 4 devices", "");
  expect("shard 'f32[8]@(x)' x=4 --width 13", 0, "[0:4]\n┌─────┬", "");
  o = run("shard 'f32[8,8]@(x,-)' x=2,y=2 --svg");
  CHECK(!strncmp(o.out, "<svg xmlns=", 11));
  CHECK_STR(o.out + strlen(o.out) - 7, "</svg>\n");
  CHECK_STR_HAS(o.out, "CPU 2,3</text>");
  free(o.out);
  free(o.err);
  expect("shard 'f32[8]@(y)' x=4 --svg", 1, "", "tessera: spec \"(y)\": no axis 'y'");
  expect("shard 'f32[8]@(x)' x=4 --svg --width -1", 2, "", "--width");
  expect("shard 'f32[8]@(y)' x=4", 1, "", "tessera: spec \"(y)\": no axis 'y'; the mesh has x=4");
  expect("shard 'f32[8]@(x)' x=0", 1, "", "tessera: mesh \"x=0\": axis 'x' has size 0");
  expect("shard 'f99[8]' x=4", 1, "", "there is no element type 'f99'");
  expect("shard 'f32[8]'", 2, "", "takes a type and a mesh, such as 'f32[8,8]@(x,-)' x=4,y=2");
  expect("shard 'f32[8]' x=4 --rows 3", 2, "", "there is no option '--rows'");
}

/* Rows (x,-) by a matrix, plus a bias from outside; the mean of it, in a body of its own. */
static const char saved_layer[] =
    "tessera function 1\nname \"layer\"\narguments \"*;(w: *, more: (*, *));\"\n"
    "result \"(mean: *, rows: *)\"\nmesh 0 \"x=4,y=2\"\n"
    "argument 0 f32[8,4]@0\"(x,-)\"\nargument 1 f32[4,6]@0\"(-,y)\"\nargument 2 bool[8]\n"
    "argument 3 i64[]\ndata 4 f32[6]@0\"(y)\" 0x1p+0 0x0p+0 0x1p+0 "
    "0x0p+0 0x1p+0 0x0p+0 \"l.c:7\"\n"
    "data 5 bool[3] 1 0 1\n"
    "region 0 {\n  %0 = arg(index=0) f32[8,6]\n  %1 = mean(%0, dims=3) f32[]\n  return %1\n}\n"
    "region 1 {\n  %0 = arg(index=0) f32[8,4]\n  %1 = arg(index=1) f32[4,6]\n"
    "  %2 = dot(%0, %1, left=[1,3], right=[3,2], out=[1,2]) f32[8,6]\n"
    "  %3 = arg(index=4) f32[6]\n  %4 = add(%2, %3) f32[8,6]\n"
    "  %5 = constrain(%4) f32[8,6]@0\"(x,y)\"\n"
    "  %6:1 = call(%5, regions=[0]) f32[]\n  %7 = result(%6, index=0) f32[]\n"
    "  return %7, %5\n}\n";

TEST(saved_functions_are_shown)
{
  test_write(test_tmp("layer.tsr"), saved_layer, sizeof saved_layer - 1);
  static const char about[] = "layer: 5 operations in 2 bodies, 2 constants of 27 bytes\n"
                              "mesh x=4,y=2\n"
                              "argument 0          f32[8,4]@(x,-)\n"
                              "argument 1.w        f32[4,6]@(-,y)\n"
                              "argument 1.more[0]  bool[8]\n"
                              "argument 1.more[1]  i64[]\n"
                              "result.mean         f32[]\n"
                              "result.rows         f32[8,6]@(x,y)\n"
                              "constant 0          f32[6]@(y), 24 bytes, l.c:7\n"
                              "constant 1          bool[3], 3 bytes\n";
  prints("function layer.tsr", about);
  struct outcome o = run("function layer.tsr --compile");
  CHECK_I64(o.code, 0);
  CHECK(!strncmp(o.out, about, sizeof about - 1));
  /* A device has 2 of 8 rows and 3 of 6 columns: 2 * 2 * 3 * 4 flops of the product. */
  CHECK_STR_HAS(o.out, "\nlayer: ");
  CHECK_STR_HAS(o.out, " of arguments, ");
  CHECK_STR_HAS(o.out, "all-reduce over x=4,y=2: ");
  CHECK_STR_HAS(o.out, "because mean at");
  free(o.out);
  free(o.err);
  expect("function layer.tsr t.csv", 2, "", "takes one file, that of a saved function");
  expect("function", 2, "", "takes one file, that of a saved function");
  expect("function none.tsr", 1, "", "none.tsr: cannot open: No such file or directory");
  test_write(test_tmp("bad.tsr"), "tessera function 9\n", 19);
  expect("function bad.tsr", 1, "", "line 1, column 17: version 9 is not known");
  expect("function layer.tsr --rows 3", 2, "", "there is no option '--rows'");
  expect("function --help", 0, "usage: tessera function FILE", "");
  expect("functions layer.tsr", 2, "", "did you mean 'function'?");
  expect("completion bash", 0, "function:-*) COMPREPLY=($(compgen -W ' --compile --help'", "");
}

/* Of more devices than a machine has. */
TEST(saved_functions_of_large_meshes_are_planned)
{
  static const char large[] =
      "tessera function 1 name \"f\" arguments \"*;\" result \"*\" mesh 0 \"x=65536\"\n"
      "argument 0 f32[131072]@0\"(x)\"\nregion 0 { %0 = arg(index=0) f32[131072]\n"
      "%1 = sum(%0, dims=1) f32[] return %1 }";
  test_write(test_tmp("large.tsr"), large, sizeof large - 1);
  expect("function large.tsr --compile", 0, "all-reduce over x=65536: ", "");
}
