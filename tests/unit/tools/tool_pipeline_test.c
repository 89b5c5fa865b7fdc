/* tessera pipeline: fields, a sample, counts and bad records of files of every format. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "harness.h"
#include "support/record_writer.h"
#include "support/tool_fixture.h"
#include "tessera.h"

/* Runs a command; its output and its messages, malloced. */
static char *run(const char *arguments, int *code)
{
  char tool[1024], command[3000];
  tool_path(tool, sizeof tool);
  snprintf(command, sizeof command, "cd '%s' && '%s' pipeline %s >out.txt 2>&1", test_tmp("."),
           tool, arguments);
  int status = system(command);
  CHECK(WIFEXITED(status));
  *code = WEXITSTATUS(status);
  return test_read(test_tmp("out.txt"), NULL);
}

static void prints(const char *arguments, int expected, const char *text)
{
  int code;
  char *out = run(arguments, &code);
  if (strstr(out, text) == NULL) CHECK_STR(out, text);
  if (code != expected) FAIL("tessera pipeline %s: exit status %d: %s", arguments, code, out);
  free(out);
}

static void copy(const char *from, const char *to)
{
  size_t size;
  char *bytes = test_read(test_file(from), &size);
  test_write(test_tmp(to), bytes, size);
  free(bytes);
}

/* The value of a number in JSON. */
static double number(const char *json, const char *name)
{
  char key[64];
  snprintf(key, sizeof key, "\"%s\": ", name);
  const char *at = strstr(json, key);
  if (!at) FAIL("no %s in %s", name, json);
  return atof(at + strlen(key));
}

TEST(fields_and_a_sample)
{
  copy("../examples/data/digits.npz", "digits.npz");
  prints("digits.npz --head 2 --seconds 0", 0,
         "npz(digits.npz: 1797 of image u8[8,8], label u8[])\n"
         "┌───────┬─────────┬───────┬──────────────────────┬───────────────────────┐\n"
         "│ field │ type    │ bytes │ record 0             │ record 1              │\n"
         "│ text  │ text    │   i64 │ text                 │ text                  │\n"
         "├───────┼─────────┼───────┼──────────────────────┼───────────────────────┤\n"
         "│ image │ u8[8,8] │    64 │ 0 0 5 13 9 1 0 0 ... │ 0 0 0 12 13 5 0 0 ... │\n"
         "│ label │ u8      │     1 │ 0                    │ 1                     │\n"
         "└───────┴─────────┴───────┴──────────────────────┴───────────────────────┘\n");
  prints("digits.npz --batch-size 100", 0, "│ batches     │ 18 of 100 ");
  prints("digits.npz", 0, "│ bad records │ 0 ");
  prints("digits.npz digits.npz --fields label --shuffle --seed 3", 0, "│ records     │ 3594 ");
  prints("digits.npz --fields none", 1, "none");
}

/* Records are counted once, whatever reads them; an epoch is all of them. */
TEST(what_was_read_is_told)
{
  static const char *const how[] = { "", "--devices cpu:8", "--threads 0", "--shuffle",
                                     "--batch-size 7 --devices cpu:3" };
  copy("../examples/data/digits.npz", "digits.npz");
  for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
    char arguments[100];
    int code;
    snprintf(arguments, sizeof arguments, "digits.npz --json %s", how[i]);
    char *out = run(arguments, &code), *read = strstr(out, "\"read\": {");
    CHECK_I64(code, 0);
    CHECK(read);
    CHECK_STR_HAS(out, "\"type\": \"u8[8,8]\", \"dtype\": \"u8\", \"shape\": [8, 8], ");
    CHECK_I64((int64_t)number(out, "record_bytes"), 65);
    CHECK_I64((int64_t)number(read, "records"), 1797);
    CHECK(number(read, "records_per_second") > 0 && number(read, "seconds") > 0);
    CHECK_I64((int64_t)number(read, "bad"), 0);
    free(out);
  }
}

TEST(time_that_is_asked_for)
{
  copy("../examples/data/digits.npz", "digits.npz");
  int code;
  char *out = run("digits.npz --json --seconds 1", &code), *read = strstr(out, "\"read\": {");
  CHECK_I64(code, 0);
  CHECK(read && number(read, "seconds") >= 1 && number(read, "records") >= 1797);
  free(out);
}

static const char table[] = "a,b,word\n1,2.5,x\n,3,y\n4,5,z\n";

TEST(tables_are_records)
{
  test_write(test_tmp("t.csv"), table, strlen(table));
  prints("t.csv", 1, "leave them out: --where 'COLUMN is not null'");
  prints("t.csv --fields b --seconds 0", 0, "│ b     │ f64  │     8 │ 2.5      │\n");
  prints("t.csv --where 'a is not null' --head 2 --seconds 0", 0, "│ word        │ u8[");
  prints("t.csv --where 'a is not null' --fields 'twice = 2 * a' --head 2 --seconds 0", 0,
         "│ twice │ i64  │     8 │ 2        │ 8        │\n");
  test_write(test_tmp("t.table"), table, strlen(table));
  prints("t.table", 1,
         "'t.table' gives no format; give --from, one of: npz npy safetensors tfrecord");
  prints("t.table --from csv --fields b", 0, "│ records     │ 3 ");
  static const char lines[] = "{\"x\": 1}\n{\"x\": 2}\n";
  test_write(test_tmp("t.jsonl"), lines, strlen(lines));
  prints("t.jsonl t.jsonl --head 3 --seconds 0", 0, "│ x     │ i64  │     8 │ 1        │ 2  ");
  prints("t.jsonl t.csv --fields b", 1, "b");
}

TEST(safetensors)
{
  static const char head[] = "{\"x\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}";
  unsigned char bytes[100] = { sizeof head - 1 };
  memcpy(bytes + 8, head, sizeof head - 1);
  memcpy(bytes + 8 + sizeof head - 1, "\7\10\11", 3);
  test_write(test_tmp("t.safetensors"), bytes, 8 + sizeof head - 1 + 3);
  prints("t.safetensors --head 3 --seconds 0", 0,
         "│ x     │ u8   │     1 │ 7        │ 8        │ 9        │\n");
  test_write(test_tmp("t.safetensors"), bytes, 8 + sizeof head - 1 + 2);
  prints("t.safetensors", 1, "t.safetensors");
}

TEST(layouts)
{
  static const char bytes[] = "HEADabcdeABCDE";
  test_write(test_tmp("r.bin"), bytes, strlen(bytes));
  test_write(test_tmp("r2.bin"), bytes, strlen(bytes));
  prints("r.bin", 1, "a binary file does not name its fields; give them, such as --layout");
  prints("'r*.bin' --layout ' n u8 , x u8[2,2]' --header 4 --head 4 --seconds 0", 0,
         "│ x     │ u8[2,2] │     4 │ 98 99 100 101 │ 66 67 68 69 │ 98 99 100 101 │ 66 67 68 69 │");
  prints("r.bin --layout 'x i16' --seconds 0", 0, "│ x     │ i16  │     2 │ 17736 ");
  prints("r.bin --layout 'n u8, x u8[2,2]'", 1, "r.bin");
  prints("r.bin --layout 'n'", 1, "--layout takes 'NAME TYPE, ...'");
  prints("r.bin --layout 'n q8'", 1, "q8");
  prints("r.bin --layout 'n u8[2'", 1, "u8[2");
  prints("r.bin --layout 'n u8, n u8' --header 4", 1, "n");
  prints("none.bin --layout 'n u8'", 1, "none.bin");
  prints("r.bin --layout 'n u8' --where 'n > 1'", 1, "--where is for CSV and JSON");
}

/* Records that differ in length, as texts where they are some. */
TEST(lines_samples_and_folders)
{
  static const char lines[] = "one\n\nw\303\266rter\n";
  test_write(test_tmp("l.txt"), lines, strlen(lines));
  prints("l.txt --head 3 --seconds 0", 0, "│ \"one\"    │ \"\"       │ \"wörter\" │\n");
  prints("l.txt", 0, "│ records     │ 3 ");
  prints("l.txt --layout 'x u8'", 1, "--layout is not for lines: 'l.txt' names its own fields");
  char command[2000];
  const char *in = test_tmp(".");
  snprintf(command, sizeof command,
           "cd '%s' && mkdir -p m c/a c/b && echo 7 >m/s.cls && printf abc >m/s.txt && "
           "printf xy >c/a/1.jpg && printf z >c/b/2.png && tar cf s.tar -C m s.cls s.txt",
           in);
  CHECK_I64(system(command), 0);
  prints("s.tar --seconds 0", 0, "│ cls        │ i64   │     8 │ 7        │");
  prints("s.tar --layout 'txt u8[8]'", 0, "│ records     │ 1 ");
  prints("s.tar --layout 'none i64'", 1, "none");
  prints("c --fields label --head 2 --seconds 0", 0, "│ label │ i64  │     8 │ 0        │ 1   ");
  prints("c c", 0, "│ records     │ 4 ");
  prints("m", 1, "m");
  prints("l.txt --from tar", 1, "l.txt");
}

/* A record that cannot be read is told, and the others are read. */
TEST(bad_records_are_counted)
{
  size_t size;
  char *bytes = test_read(test_file("golden/files/examples_1.tfrecord"), &size);
  static const char how[] = "x.tfrecord --layout 'image u8[2,3], label i64'";
  char arguments[200];
  test_write(test_tmp("x.tfrecord"), bytes, size);
  prints(how, 0, "│ bad records │ 0 ");
  prints("x.tfrecord --layout 'image u8[7]'", 1,
         "bad: x.tfrecord: record 0 at byte 0: feature "
         "image has 6 values, expected 7\n");
  /* Two of seven: the last one, and one in the middle. */
  bytes[size - 1] ^= 1;
  bytes[size / 2] ^= 1;
  test_write(test_tmp("x.tfrecord"), bytes, size);
  for (int batch = 1; batch <= 8; batch++) {
    int code;
    snprintf(arguments, sizeof arguments, "%s --json --batch-size %d", how, batch);
    char *out = run(arguments, &code), *read = strstr(out, "\"read\": {");
    CHECK_I64(code, 1);
    CHECK(read);
    CHECK_I64((int64_t)number(read, "records"), 5);
    CHECK_I64((int64_t)number(read, "bad"), 2);
    CHECK_STR_HAS(out, "x.tfrecord: record 3 at byte ");
    CHECK_STR_HAS(out, "x.tfrecord: record 6 at byte ");
    free(out);
  }
  test_write(test_tmp("x.tfrecord"), bytes, size - 1);
  prints(how, 1, "x.tfrecord: record 6 at byte ");
  free(bytes);
}

/* Without a layout the first record says what there is, whatever its bytes are. */
TEST(features_of_the_first_record)
{
  size_t size;
  char *bytes = test_read(test_file("golden/files/examples_1.tfrecord"), &size);
  test_write(test_tmp("x.tfrecord"), bytes, size);
  prints("x.tfrecord", 0,
         "│ label   │ i64    │     8 │ 0                                │\n"
         "│ other   │ u8[13] │    13 │ 110 111 116 32 97 115 107 101 .… │\n"
         "│ weights │ f32[3] │    12 │ 0 -1 -2                          │\n"
         "│ image   │ u8[6]  │     6 │ 0 1 2 3 4 5                      │\n");
  prints("x.tfrecord --fields label", 0, "note: the fields are those of the first records");
  prints("'?.tfrecord'", 0, "│ records     │ 7 ");
  int code;
  for (size_t i = 0; i < 120; i += test_quick() ? 11 : 5) {
    bytes[i] ^= 0x55;
    test_write(test_tmp("y.tfrecord"), bytes, size);
    free(run("y.tfrecord --seconds 0", &code)); /* it comes to an end */
    CHECK(code == 0 || code == 1);
    bytes[i] ^= 0x55;
    test_write(test_tmp("y.tfrecord"), bytes, i);
    free(run("y.tfrecord --seconds 0", &code));
    CHECK(code == 0 || code == 1);
  }
  test_write(test_tmp("y.tfrecord"), bytes, 20);
  prints("y.tfrecord none.tfrecord", 1, "y.tfrecord: no tf.Example found at the start");
  free(bytes);
}

/* Bytes as data sets have them: no text, or texts of other letters; as a table and as JSON. */
TEST(bytes_of_every_kind)
{
  static const struct {
    const char *bytes;
    int size;
    const char *shown;
  } cases[] = { { "\xFF\xD8\xFF\xE0\0\x10JFIF\0\1", 12, "255 216 255 224 0 16 74 70 ..." },
                { "\x89PNG\r\n\x1A\n\0\0\0\rIHDR", 16, "137 80 78 71 13 10 26 10 ..." },
                { "caf\xE9 cr\xE8me", 10, "\"caf\\xE9 cr\\xE8me\"" },
                { "\xC3\xA9t\xC3\xA9", 5, "\"\xC3\xA9t\xC3\xA9\"" },
                { "\xED\xA0\x80!", 4, "\"\\xED\\xA0\\x80!\"" },
                { "\xF4\x90\x80\x80", 4, "\"\\xF4\\x90\\x80\\x80\"" },
                { "\xC0\xAF", 2, "\"\\xC0\\xAF\"" },
                { "\xE2\x82", 2, "\"\\xE2\\x82\"" } };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char command[1500];
    written tar = { .size = 0 };
    snprintf(command, sizeof command, "cd '%s' && rm -rf k && mkdir -p k/a", test_tmp("."));
    CHECK_I64(system(command), 0);
    test_write(test_tmp("k/a/1.jpg"), cases[i].bytes, (size_t)cases[i].size);
    tar_member(&tar, "1.jpg", cases[i].bytes, (size_t)cases[i].size);
    tar_end(&tar);
    written_to(&tar, test_tmp("k.tar"));
    prints("k", 0, cases[i].shown);
    prints("k.tar --head 1", 0, cases[i].shown);
    int code;
    char *out = run("k --json", &code);
    CHECK_I64(code, 0);
    tsr_runtime *rt = tsr_runtime_open("cpu:1");
    tsr_scope *s = tsr_scope_open(rt);
    /* One object of UTF-8, by the library's own reader. */
    char *line = out;
    for (char *c = out; *c; c++)
      if (*c == '\n' && c[1]) *c = ' ';
    test_write(test_tmp("o.jsonl"), line, strlen(line));
    tsr_source *source =
        tsr_source_json(s, test_tmp("o.jsonl"), .fields = { { "records", TSR_I64, { 0 } } });
    tsr_pipeline *p = tsr_pipeline_open(source);
    tsr_batch *b = tsr_pipeline_next(p);
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    tsr_batch_release(b);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
    free(out);
  }
  test_write(test_tmp("latin.txt"), "na\xEFve\nplain\n", 12);
  prints("latin.txt --head 2", 0, "│ \"na\\xEFve\" │ \"plain\" ");
  test_write(test_tmp("wide.txt"), "\xFF\xFEh\0i\0\n\0\xE9\0\n\0", 12);
  prints("wide.txt --head 2", 0, "│ \"hi\" ");
  prints("wide.txt --head 2", 0, "│ \"\xC3\xA9\" ");
  static const char texts[] = "{\"a\": \"x\", \"n\": 1}\n{\"a\": \"caf\xC3\xA9\", \"n\": 2}\n";
  test_write(test_tmp("t.jsonl"), texts, strlen(texts));
  prints("t.jsonl --head 2", 0, "│ u8[5] │     5 │ \"x\"      │ \"caf\xC3\xA9\" ");
}

/* Packed examples whose features differ in length, with names as they are and some that lack. */
TEST(packed_examples)
{
  written message = { .size = 0 }, file = { .size = 0 };
  unsigned char image[40] = { 0xFF, 0xD8, 0xFF };
  for (int64_t i = 0; i < 5; i++) {
    example_bytes(&message, "image/encoded", image, (size_t)(20 + i));
    example_integers(&message, "image/class/label", &i, 1);
    if (i == 3) example_missing(&message, "score");
    else example_floats(&message, "score", (const float[]){ 0.5F }, 1);
    example_end(&message, &file);
  }
  written_to(&file, test_tmp("e.tfrecord"));
  char command[1500];
  snprintf(command, sizeof command,
           "cd '%s' && gzip -k e.tfrecord && cp e.tfrecord e.tfrecord-00000-of-00001",
           test_tmp("."));
  CHECK_I64(system(command), 0);
  static const char *const names[] = { "e.tfrecord", "e.tfrecord.gz", "e.tfrecord-00000-of-00001" };
  for (int i = 0; i < 3; i++) {
    prints(names[i], 0, "│ image/encoded        │ u8[24] │    24 │ 255 216 255 0 0 0 0 0 ... │\n");
    prints(names[i], 0, "│ image/class/label    │ i64    │     8 │ 0 ");
    prints(names[i], 0, "│ score                │ f32    │     4 │ 0.5 ");
    prints(names[i], 0, "│ bad records │ 0 ");
  }
  prints("e.tfrecord.gz", 0, "tessera: note: e.tfrecord.gz: 1 packed files of ");
  prints("e.tfrecord.gz --unpack-limit 100", 1, "--unpack-limit");
  prints("e.tfrecord.gz --unpack-limit 100 --layout 'score f32'", 1, "--unpack-limit");
}

TEST(wrong_lines)
{
  prints("", 2, "FILE is missing");
  prints("x.npz --batch-size 0", 2, "--batch-size takes 1 to 2^40, found '0'");
  prints("x.npz --batch-size many", 2, "--batch-size takes a number of records, found 'many'");
  prints("x.npz --threads 257", 2, "--threads takes 0 to 256, found '257'");
  prints("x.npz --seconds -1", 2, "--seconds takes a number of seconds, found '-1'");
  prints("x.npz --head 9", 2, "--head takes 0 to 8, found '9'");
  prints("x.npz --header x", 2, "--header takes a number of bytes, found 'x'");
  prints("x.npz --seed 3", 2, "--seed needs --shuffle");
  prints("x.npz --from parquet", 2,
         "--from takes one of: npz npy safetensors tfrecord binary lines tar folder csv");
  prints("x.npz", 1, "x.npz");
  prints("x.npz --devices gpu:1", 1, "--devices: ");
}
