/* Copies an archive of ELF objects and makes every hidden symbol of it visible: the tests' shared
 * library is linked of that copy, so that tests reach internal functions of the very objects that
 * the installed libraries are made of.
 *
 *   visible_archive FROM TO */
#include <ar.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refuse(const char *path, const char *why)
{
  fprintf(stderr, "visible_archive: '%s' %s\n", path, why);
  exit(1);
}

static char *read_whole(const char *path, size_t *length)
{
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) refuse(path, "cannot be read");
  long size = ftell(file);
  char *data = size > 0 ? malloc((size_t)size) : NULL;
  rewind(file);
  if (!data || fread(data, 1, (size_t)size, file) != (size_t)size) refuse(path, "cannot be read");
  fclose(file);
  *length = (size_t)size;
  return data;
}

static void show_symbols(char *object)
{
  Elf64_Ehdr head;
  memcpy(&head, object, sizeof head);
  for (int i = 0; i < head.e_shnum; i++) {
    Elf64_Shdr section;
    memcpy(&section, object + head.e_shoff + (size_t)i * sizeof section, sizeof section);
    if (section.sh_type != SHT_SYMTAB) continue;
    char *first = object + section.sh_offset;
    for (char *at = first; at < first + section.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      memcpy(&symbol, at, sizeof symbol);
      if (ELF64_ST_VISIBILITY(symbol.st_other) == STV_HIDDEN) symbol.st_other = STV_DEFAULT;
      memcpy(at, &symbol, sizeof symbol);
    }
  }
}

int main(int argc, char **argv)
{
  if (argc != 3) refuse("visible_archive", "takes two paths: FROM TO");
  size_t length, at = SARMAG;
  char *data = read_whole(argv[1], &length);
  if (length < SARMAG || memcmp(data, ARMAG, SARMAG)) refuse(argv[1], "is no archive of objects");
  while (at + sizeof(struct ar_hdr) <= length) {
    struct ar_hdr head;
    char size[sizeof head.ar_size + 1] = "";
    memcpy(&head, data + at, sizeof head);
    memcpy(size, head.ar_size, sizeof head.ar_size);
    size_t bytes = (size_t)strtoull(size, NULL, 10);
    at += sizeof head;
    if (bytes > length - at) refuse(argv[1], "ends within an object");
    if (bytes > sizeof(Elf64_Ehdr) && !memcmp(data + at, ELFMAG, SELFMAG)) show_symbols(data + at);
    at += bytes + bytes % 2;
  }
  FILE *file = fopen(argv[2], "wb");
  if (!file || fwrite(data, 1, length, file) != length || fclose(file))
    refuse(argv[2], "cannot be written");
  free(data);
  return 0;
}
