/* Processes that meet, keep keys and wait for each other: real ones, over a Unix socket and over
 * TCP. What the store and barriers do are the documented cases of JAX's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "support/process_fixture.h"

/* ---- meeting --------------------------------------------------------------------------------- */

TEST(one_process_needs_nobody)
{
  tsr_runtime *rt = tsr_initialize("cpu:2");
  CHECK_STR(tsr_runtime_message(rt), "");
  CHECK_I64(tsr_process_index(rt), 0);
  CHECK_I64(tsr_process_count(rt), 1);
  CHECK(tsr_process_alive(rt, 0) && !tsr_process_alive(rt, 1) && !tsr_process_alive(rt, -1));
  tsr_scope *s = tsr_scope_open(rt);
  tsr_value value;
  CHECK_STATUS(tsr_sync(s, "alone"), TSR_OK, s);
  CHECK_STATUS(tsr_store_set(s, "key", "value", 5), TSR_OK, s);
  CHECK_STATUS(tsr_store_get(s, "key", &value), TSR_OK, s);
  CHECK_STR(value.data, "value");
  tsr_runtime_close(rt);
}

TEST(a_plain_runtime_knows_of_no_others)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_I64(tsr_process_index(rt), 0);
  CHECK_I64(tsr_process_count(rt), 1);
  CHECK(tsr_process_alive(rt, 0));
  CHECK_STATUS(tsr_sync(s, "alone"), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s), "tsr_sync: the runtime of this scope belongs to no job of several "
                                "processes; open the runtime with tsr_initialize");
  tsr_runtime_close(rt);
}

static void meet(tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STR(tsr_runtime_message(rt), "");
  CHECK_I64(tsr_process_index(rt), test_process());
  CHECK_I64(tsr_process_count(rt), test_process_count());
  for (int i = 0; i < test_process_count(); i++) CHECK(tsr_process_alive(rt, i));
  for (int i = 0; i < 100; i++) CHECK_STATUS(tsr_sync(s, "again"), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_PROCESSES(four_meet_at_a_socket, 4)
{
  meet(fixture_join("four", .secret = "a"));
}

TEST_PROCESSES(four_meet_at_a_port, 4)
{
  meet(tsr_initialize("cpu:1", .coordinator = fixture_port(), .process_count = 4,
                      .process_index = test_process(), .secret = "s3cret"));
}

TEST_PROCESSES(those_of_one_host_need_no_secret, 3)
{
  meet(tsr_initialize("cpu:1", .coordinator = fixture_port(), .process_count = 3,
                      .process_index = test_process()));
}

TEST_PROCESSES(sixteen_meet_and_meet_again, 16)
{
  meet(fixture_join("first", .secret = "a"));
  meet(fixture_join("second", .secret = "b"));
}

/* ---- the store ------------------------------------------------------------------------------- */

TEST_PROCESSES(keys_are_seen_by_all, 4)
{
  tsr_runtime *rt = fixture_join("keys");
  tsr_scope *s = tsr_scope_open(rt);
  char key[32], text[32];
  tsr_value value;
  int me = tsr_process_index(rt), next = (me + 1) % 4;
  snprintf(key, sizeof key, "from/%d", me);
  snprintf(text, sizeof text, "I am %d", me);
  CHECK_STATUS(tsr_store_set(s, key, text, strlen(text)), TSR_OK, s);
  snprintf(key, sizeof key, "/from//%d/", next);
  snprintf(text, sizeof text, "I am %d", next);
  CHECK_STATUS(tsr_store_get(s, key, &value), TSR_OK, s);
  CHECK_STR(value.data, text);
  CHECK_U64(value.length, strlen(text));
  CHECK_STATUS(tsr_sync(s, "all set"), TSR_OK, s);
  tsr_store_keys all;
  CHECK_STATUS(tsr_store_list(s, "from", &all), TSR_OK, s);
  CHECK_I64(all.count, 4);
  CHECK_STR(all.keys[2], "from/2");
  CHECK_STR(all.values[2].data, "I am 2");
  tsr_runtime_close(rt);
}

TEST(a_key_is_set_once_unless_it_is_said)
{
  tsr_runtime *rt = tsr_initialize("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_value value;
  CHECK_STATUS(tsr_store_set(s, "k", "1", 1), TSR_OK, s);
  CHECK_STATUS(tsr_store_set(s, "k", "2", 1), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s),
                "tsr_store_set: key 'k' already exists; choose another key, or set .overwrite");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_store_get(s, "k", &value), TSR_OK, s);
  CHECK_STR(value.data, "1");
  CHECK_STATUS(tsr_store_set(s, "k", "22", 2, .overwrite = true), TSR_OK, s);
  CHECK_STATUS(tsr_store_get(s, "k", &value), TSR_OK, s);
  CHECK_STR(value.data, "22");
  CHECK_STATUS(tsr_store_find(s, "none", &value), TSR_OK, s);
  CHECK(value.data == NULL);
  CHECK_STATUS(tsr_store_get(s, "none", &value, .timeout = 0.05), TSR_EPEER, NULL);
  CHECK_STR_HAS(tsr_message(s), "tsr_store_get: no process has set key 'none' within 0.05 s");
  tsr_runtime_close(rt);
}

TEST(values_are_bytes)
{
  tsr_runtime *rt = tsr_initialize("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_value value;
  size_t size = 8 << 20;
  char *large = calloc(1, size + 1);
  CHECK(large != NULL);
  for (size_t i = 0; i < size; i++) large[i] = (char)(i * 7);
  CHECK_STATUS(tsr_store_set(s, "large", large, size), TSR_OK, s);
  CHECK_STATUS(tsr_store_get(s, "large", &value), TSR_OK, s);
  CHECK_U64(value.length, size);
  CHECK_BYTES(value.data, large, size);
  CHECK_STATUS(tsr_store_set(s, "larger", large, size + 1), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), "the value has 8388609 bytes, at most 8388608");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_store_set(s, "empty", NULL, 0), TSR_OK, s);
  CHECK_STATUS(tsr_store_find(s, "empty", &value), TSR_OK, s);
  CHECK(value.data != NULL && value.length == 0);
  CHECK_STATUS(tsr_store_set(s, "//", "x", 1), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), "the key is empty");
  free(large);
  tsr_runtime_close(rt);
}

TEST(folders_are_listed_in_order_and_deleted_whole)
{
  static const char *const names[] = { "a/b", "a", "a-b", "a/b/c", "b", "a/a", "ab" };
  static const char *const below[] = { "a/a", "a/b", "a/b/c" };
  tsr_runtime *rt = tsr_initialize("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_store_keys found;
  for (int i = 0; i < 7; i++) CHECK_STATUS(tsr_store_set(s, names[i], "v", 1), TSR_OK, s);
  CHECK_STATUS(tsr_store_list(s, "/a/", &found), TSR_OK, s);
  CHECK_I64(found.count, 3);
  for (int i = 0; i < 3; i++) CHECK_STR(found.keys[i], below[i]);
  CHECK_STATUS(tsr_store_list(s, "", &found), TSR_OK, s);
  CHECK_I64(found.count, 7);
  CHECK_STATUS(tsr_store_delete(s, "a"), TSR_OK, s);
  CHECK_STATUS(tsr_store_list(s, "", &found), TSR_OK, s);
  CHECK_I64(found.count, 3);
  CHECK_STR(found.keys[0], "a-b");
  CHECK_STATUS(tsr_store_delete(s, "nothing"), TSR_OK, s);
  tsr_runtime_close(rt);
}

TEST(a_large_folder_is_listed_in_one_answer)
{
  enum { KEYS = 5000 };
  tsr_runtime *rt = tsr_initialize("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_store_keys found;
  char key[32];
  for (int i = 0; i < KEYS; i++) {
    snprintf(key, sizeof key, "f/%05d", (i * 1237) % KEYS);
    CHECK_STATUS(tsr_store_set(s, key, key, strlen(key)), TSR_OK, s);
  }
  CHECK_STATUS(tsr_store_list(s, "f", &found), TSR_OK, s);
  CHECK_I64(found.count, KEYS);
  for (int i = 0; i < KEYS; i++) {
    snprintf(key, sizeof key, "f/%05d", i);
    CHECK_STR(found.keys[i], key);
    CHECK_STR(found.values[i].data, key);
  }
  tsr_runtime_close(rt);
}

TEST_PROCESSES(sums_of_all_lose_nothing, 4)
{
  enum { TIMES = 200 };
  tsr_runtime *rt = fixture_join("sums");
  tsr_scope *s = tsr_scope_open(rt);
  int64_t sum = 0;
  for (int i = 0; i < TIMES; i++) CHECK_STATUS(tsr_store_add(s, "n", 3, &sum), TSR_OK, s);
  CHECK_STATUS(tsr_sync(s, "added"), TSR_OK, s);
  CHECK_STATUS(tsr_store_add(s, "n", 0, &sum), TSR_OK, s);
  CHECK_I64(sum, 4 * TIMES * 3);
  CHECK_STATUS(tsr_sync(s, "seen"), TSR_OK, s);
  tsr_runtime_close(rt);
}

TEST(sums_are_of_whole_numbers)
{
  tsr_runtime *rt = tsr_initialize("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  int64_t sum = 7;
  CHECK_STATUS(tsr_store_set(s, "word", "12x", 3), TSR_OK, s);
  CHECK_STATUS(tsr_store_add(s, "word", 1, &sum), TSR_EVALUE, NULL);
  CHECK_STR_HAS(tsr_message(s), "key 'word' holds '12x', expected a whole number");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_store_add(s, "most", INT64_MAX, &sum), TSR_OK, s);
  CHECK_I64(sum, INT64_MAX);
  CHECK_STATUS(tsr_store_add(s, "most", 1, &sum), TSR_EVALUE, NULL);
  CHECK_STR_HAS(tsr_message(s), "beyond 64 bits");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_store_add(s, "least", INT64_MIN, &sum), TSR_OK, s);
  CHECK_STATUS(tsr_store_add(s, "least", 1, &sum), TSR_OK, s);
  CHECK_I64(sum, INT64_MIN + 1);
  tsr_runtime_close(rt);
}

/* ---- barriers -------------------------------------------------------------------------------- */

static const int evens[] = { 0, 2 };

TEST_PROCESSES(some_wait_for_each_other, 4)
{
  tsr_runtime *rt = fixture_join("some");
  tsr_scope *s = tsr_scope_open(rt);
  if (test_process() % 2 == 0)
    CHECK_STATUS(tsr_sync(s, "even", .processes = evens, .process_count = 2), TSR_OK, s);
  tsr_runtime_close(rt);
}

/* Whoever comes and takes no part spoils it for all, also for those who come later. */
TEST_PROCESSES(a_stranger_spoils_a_barrier_for_all, 4)
{
  tsr_runtime *rt = fixture_join("spoilt");
  tsr_scope *s = tsr_scope_open(rt);
  if (test_process() == 2) CHECK_STATUS(tsr_sync(s, "others know"), TSR_OK, s);
  tsr_status status = TSR_EARG;
  if (test_process() != 3)
    status = tsr_sync(s, "even", .processes = evens, .process_count = 2, .timeout = 20);
  CHECK_STATUS(status, TSR_EARG, s);
  if (test_process() != 3)
    CHECK_STR_HAS(tsr_message(s), "process 1 arrived, which is not in the list of processes");
  tsr_scope_clear(s);
  if (test_process() != 2) CHECK_STATUS(tsr_sync(s, "others know"), TSR_OK, s);
  /* The name is as good as new. */
  if (test_process() % 2 == 0)
    CHECK_STATUS(tsr_sync(s, "even", .processes = evens, .process_count = 2), TSR_OK, s);
  tsr_runtime_close(rt);
}

TEST_PROCESSES(who_is_missing_is_named, 4)
{
  tsr_runtime *rt = fixture_join("missing");
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(tsr_sync(s, "begin"), TSR_OK, s); /* so that they come to the next one together */
  if (test_process() != 2) {
    CHECK_STATUS(tsr_sync(s, "epoch", .timeout = 1.2), TSR_EPEER, NULL);
    CHECK_STR_HAS(
        tsr_message(s),
        "tsr_sync: 'epoch': after 1.2 s 3 of 4 processes have arrived; missing: process 2 (pid ");
    tsr_scope_clear(s);
    CHECK_STATUS(tsr_sync(s, "told"), TSR_OK, s);
  } else {
    CHECK_STATUS(tsr_sync(s, "told"), TSR_OK, s);
    /* Too late, and told so; the next one is another barrier. */
    CHECK_STATUS(tsr_sync(s, "epoch", .timeout = 1.2), TSR_EPEER, NULL);
    tsr_scope_clear(s);
  }
  CHECK_STATUS(tsr_sync(s, "epoch"), TSR_OK, s);
  tsr_runtime_close(rt);
}

TEST_PROCESSES(who_has_left_is_not_waited_for, 3)
{
  tsr_runtime *rt = fixture_join("left");
  tsr_scope *s = tsr_scope_open(rt);
  if (test_process() != 1) {
    CHECK_STATUS(tsr_sync(s, "all"), TSR_EPEER, NULL);
    CHECK_STR_HAS(tsr_message(s), "'all': process 1 (pid ");
    CHECK_STR_HAS(tsr_message(s), ") has left the job and cannot arrive");
    CHECK(!tsr_process_alive(rt, 1));
  }
  tsr_runtime_close(rt);
}

/* What engines swap their addresses by. */
TEST_PROCESSES(records_come_in_the_order_of_processes, 4)
{
  tsr_runtime *rt = fixture_join("records");
  tsr__comm *comm = tsr__comm_of(rt);
  tsr__error error = { .status = TSR_OK };
  tsr__text out;
  char own[32];
  /* Of different lengths, 0 among them. */
  size_t length = (size_t)test_process() * 7;
  memset(own, 'a' + test_process(), sizeof own);
  tsr__comm_meeting meeting = { .name = "records", .seconds = 20, .record = { own, length } };
  tsr__text_init(&out, &rt->heap);
  CHECK_STATUS(tsr__comm_meet(comm, &meeting, &out, &error), TSR_OK, NULL);
  tsr__fields fields = { (const uint8_t *)out.data, (const uint8_t *)out.data + out.length, false };
  for (int i = 0; i < 4; i++) {
    tsr__blob record = tsr__take_bytes(&fields);
    CHECK_U64(record.length, (size_t)i * 7);
    for (size_t k = 0; k < record.length; k++) CHECK_I64(((const char *)record.data)[k], 'a' + i);
  }
  CHECK(tsr__fields_done(&fields));
  CHECK(!tsr__comm_failed(comm, &error));
  tsr__text_free(&out);
  CHECK(tsr__comm_presence(comm, 3) != TSR__ABSENT);
  CHECK_I64(tsr__comm_presence(comm, 4), TSR__ABSENT);
  tsr_runtime_close(rt);
}

TEST(barriers_name_processes_that_exist)
{
  static const int twice[] = { 0, 0 }, beyond[] = { 1 };
  tsr_runtime *rt = tsr_initialize("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(tsr_sync(s, "x", .processes = beyond, .process_count = 1), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), ".processes names 1, expected different numbers from 0 to 0");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_sync(s, "x", .processes = twice, .process_count = 2), TSR_EARG, NULL);
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_sync(s, "x", .timeout = -1), TSR_EARG, NULL);
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_sync(s, NULL), TSR_EARG, NULL);
  tsr_runtime_close(rt);
}
