/* Files as arguments of the tool: several as one, patterns, what is said of them. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct outcome {
  int code;
  char *out, *err;
};

/* Runs "tessera ARGUMENTS" by the shell, in a folder of its own. */
static struct outcome run(const char *arguments)
{
  char tool[1024], command[4096];
  struct outcome o;
  ssize_t length = readlink("/proc/self/exe", tool, sizeof tool - 32);
  CHECK(length > 0);
  tool[length] = 0;
  for (int i = 0; i < 3; i++) *strrchr(tool, '/') = 0; /* build/release/tests/unit/... */
  strcat(tool, "/bin/tessera");
  if (access(tool, X_OK) != 0) SKIP("the tool is not built");
  snprintf(command, sizeof command, "cd '%s' && '%s' %s >out.txt 2>err.txt", test_tmp("."), tool,
           arguments);
  int status = system(command);
  CHECK(WIFEXITED(status));
  o.code = WEXITSTATUS(status);
  o.out = test_read(test_tmp("out.txt"), NULL);
  o.err = test_read(test_tmp("err.txt"), NULL);
  return o;
}

static void prints(const char *arguments, const char *out, const char *err)
{
  struct outcome o = run(arguments);
  if (o.code) FAIL("tessera %s: exit status %d: %s", arguments, o.code, o.err);
  CHECK_STR(o.out, out);
  CHECK_STR(o.err, err);
  free(o.out);
  free(o.err);
}

static void fails(const char *arguments, const char *err)
{
  struct outcome o = run(arguments);
  if (o.code != 1) FAIL("tessera %s: exit status %d: %s", arguments, o.code, o.out);
  CHECK_STR_HAS(o.err, err);
  free(o.out);
  free(o.err);
}

static void file(const char *name, const char *text)
{
  test_write(test_tmp(name), text, strlen(text));
}

/* ---- several files --------------------------------------------------------------------------- */

/* What stands in no file of its own decides the types of all: a number beyond 2^53 beside a file
 * where its column is empty, a text beside one, and a file without rows. */
TEST(arguments_are_what_their_pattern_is)
{
  static const char all[] = "id,word\n9007199254740993,x\n,\"\"\n1,\"\"\n";
  file("a.csv", "id,word\n9007199254740993,x\n");
  file("b.csv", "id,word\n,\n");
  file("c.csv", "word,id\n");
  file("d.csv", "word,id\n,1\n");
  prints("query '?.csv' --format csv", all, "");
  prints("query a.csv b.csv c.csv d.csv --format csv", all, "");
  prints("query a.csv '[b-d].csv' --format csv", all, "");
  prints("query c.csv b.csv a.csv --select id --format csv", "id\n\"\"\n9007199254740993\n", "");
  prints("convert a.csv b.csv c.csv d.csv out.csv", "", "");
  prints("query out.csv --format csv", all, "");
  prints("query - a.csv --format csv <b.csv", "id,word\n,\"\"\n9007199254740993,x\n", "");
  fails("query a.csv e.csv", "e.csv: cannot open");
  file("f.csv", "id,name\n1,x\n");
  fails("query a.csv f.csv", "f.csv: lacks column \"word\", but the column is in a.csv");
}

/* Columns of JSON lines are those of all files, as in a pattern. */
TEST(json_arguments_unite_columns)
{
  static const char all[] = "a,b\n1,\n,2.5\n";
  file("a.jsonl", "{\"a\":1}\n");
  file("b.jsonl", "{\"b\":2.5,\"a\":null}\n");
  prints("query '?.jsonl' --format csv", all, "");
  prints("query a.jsonl b.jsonl --format csv", all, "");
  file("c.csv", "b,a\n,9007199254740993\n");
  prints("query a.jsonl b.jsonl c.csv --format csv", "a,b\n1,\n,2.5\n9007199254740993,\n", "");
}

TEST(a_literal_path_is_no_pattern)
{
  file("a[1].csv", "a\n1\n");
  file("a1.csv", "a\n2\n");
  prints("query 'a[1].csv' --format csv", "a\n1\n", ""); /* a file's name is that file */
  prints("query 'a?.csv' --format csv", "a\n2\n", "");
  fails("query 'a?.csv' --literal-path", "a?.csv: cannot open");
  fails("query 'a?.csv' --from json --literal-path", "a?.csv: cannot open");
}

/* What a message tells to raise can be raised where it is read. */
TEST(a_packed_file_has_a_limit_that_can_be_set)
{
  static const char limit[] = "p.csv.gz: its ";
  file("p.csv", "a\n1\n2\n");
  prints("convert p.csv p.csv.gz", "", "");
  prints("query p.csv.gz --unpack-limit 6 --format csv", "a\n1\n2\n", "");
  fails("query p.csv.gz --unpack-limit 5", limit);
  fails("query p.csv.gz --unpack-limit 5", "--unpack-limit");
  fails("schema p.csv.gz --unpack-limit 5", limit);
  file("p.jsonl", "{\"a\":1}\n");
  prints("convert p.jsonl p.jsonl.gz", "", "");
  prints("query p.jsonl.gz --unpack-limit 8 --format csv", "a\n1\n", "");
  fails("query p.jsonl.gz --unpack-limit 7", "p.jsonl.gz: its ");
}

TEST(odd_headers_and_rows_are_told)
{
  file("twice.csv", "a,b,a,a_3,a\n1,2,3,4,5\n");
  prints("query twice.csv --format csv", "a,b,a_3,a_3_4,a_5\n1,2,3,4,5\n",
         "tessera: note: twice.csv: column 3 is another \"a\", and called \"a_3\"\n"
         "tessera: note: twice.csv: column 4 is another \"a_3\", and called \"a_3_4\"\n"
         "tessera: note: twice.csv: column 5 is another \"a\", and called \"a_5\"\n");
  prints("query twice.csv --names 'v,w,x,y,z' --format csv", "v,w,x,y,z\n1,2,3,4,5\n", "");
  prints("query twice.csv --names 'v,w,x,y,z' --no-header --limit 1 --select v --format csv",
         "v\na\n", "");
  fails("query twice.csv --unique-names", "columns 1 and 3 of the header are both called");
  fails("query twice.csv --names v,w", "2 names are given, but the file has 5 columns");
  file("bad.csv", "a,b\n1,2\n3\n4,5\n6,7,8\n");
  prints("query bad.csv --bad-rows skip --format csv", "a,b\n1,2\n4,5\n",
         "tessera: note: 2 bad rows skipped\n");
  file("bad.jsonl", "{\"a\":1}\n{\"a\":2\n");
  prints("query bad.jsonl --bad-rows skip --format csv", "a\n1\n",
         "tessera: note: 1 bad row skipped\n");
}

/* Wherever the first code stands, the text of all of them stays, is told, and comes back. */
TEST(codes_are_told_and_come_back)
{
  static const char note[] =
      "tessera: note: z.csv: column \"zip\" is text, as integers in it begin "
      "with zeros; --types makes it a number\n";
  file("z.csv", "zip,n\n02134,1\n10001,2\n");
  prints("query z.csv --format csv", "zip,n\n02134,1\n10001,2\n", note);
  prints("query z.csv --types 'zip i64' --format csv", "zip,n\n2134,1\n10001,2\n", "");
  prints("convert z.csv z.json", "", note);
  prints("convert z.json z.tsv", "", "");
  prints("query z.tsv --types 'zip text' --format csv", "zip,n\n02134,1\n10001,2\n", "");
  FILE *out = fopen(test_tmp("z.csv"), "w");
  fprintf(out, "n,zip\n");
  for (int i = 0; i < 120000; i++) fprintf(out, i == 40000 ? "%d,007\n" : "%d,1\n", i);
  CHECK_I64(fclose(out), 0);
  prints("query z.csv --where 'n == 40000' --format csv", "n,zip\n40000,007\n", note);
}

TEST(separators_are_found_in_the_first_rows)
{
  file("semi.csv", "a;b\n1,5;x\n");
  prints("query semi.csv --format csv", "a,b\n\"1,5\",x\n",
         "tessera: note: semi.csv: fields are separated by ';', as its first rows show\n");
  prints("query semi.csv --decimal-comma --select a --format csv", "a\n1.5\n",
         "tessera: note: semi.csv: fields are separated by ';', as its first rows show\n");
  prints("query semi.csv --separator ';' --format csv", "a,b\n\"1,5\",x\n", "");
  file("tab.txt", "a\tb\n1\t2\n");
  file("comma.txt", "b,a\n4,3\n");
  prints("query tab.txt comma.txt --format csv", "a,b\n1,2\n3,4\n",
         "tessera: note: tab.txt: fields are separated by '\\t', as its first rows show\n");
  file("plain.csv", "a,b;c\n1,2\n");
  prints("query plain.csv --format csv", "a,b;c\n1,2\n", "");
  file("one.csv", "\"a;b\"\nx;y\n");
  prints("query one.csv --format csv", "a;b\nx;y\n", "");
  file("cr.csv", "a;b\r1;\"x\ny\"\r");
  prints("query cr.csv --separator ';' --format csv", "a,b\n1,\"x\ny\"\n", "");
  prints("query cr.csv --format csv", "a,b\n1,\"x\ny\"\n",
         "tessera: note: cr.csv: fields are separated by ';', as its first rows show\n");
  fails("query comma.txt --decimal-comma", "the separator cannot be ',' too");
}
