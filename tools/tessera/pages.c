/* Completion scripts and the manual page, made of the tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "tool.h"

/* ---- completion ---- */

#define SHELLS "bash zsh fish"

static void list_options(const char *command, FILE *out)
{
  for (int i = 0; i < OPT_COUNT; i++)
    if (tool_takes(command, (tool_opt)i)) fprintf(out, " %s", tool_options[i].name);
}

/* Adds a case for the choices of an option, in the commands that take it: another command may have
 * an option of the same name with other choices. */
static void list_choices(const tool_option *o, FILE *out)
{
  bool more = false;
  for (int i = 0; i < tool_command_count; i++) {
    if (!tool_takes(tool_commands[i].name, (tool_opt)(o - tool_options))) continue;
    fprintf(out, "%s%s:%s", more ? "|" : "    ", tool_commands[i].name, o->name);
    more = true;
  }
  fprintf(out, ") COMPREPLY=($(compgen -W '%s' -- \"$word\")); return ;;\n", o->choices);
}

static void bash_script(FILE *out)
{
  /* First the word before decides (an option with choices), then the command, then files. */
  fprintf(out,
          "_tessera() {\n  local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]}\n"
          "  if [ \"$COMP_CWORD\" = 1 ]; then\n    COMPREPLY=($(compgen -W '");
  for (int i = 0; i < tool_command_count; i++) fprintf(out, "%s ", tool_commands[i].name);
  fprintf(out,
          "help --version' -- \"$word\"))\n    return\n  fi\n"
          "  case ${COMP_WORDS[1]}:$last in\n    help:help) COMPREPLY=($(compgen -W 'expressions");
  for (int i = 0; i < tool_command_count; i++) fprintf(out, " %s", tool_commands[i].name);
  fprintf(out, "' -- \"$word\")); return ;;\n");
  for (int i = 0; i < OPT_COUNT; i++)
    if (tool_options[i].choices) list_choices(&tool_options[i], out);
  fprintf(out, "  esac\n  case ${COMP_WORDS[1]}:$word in\n");
  for (int i = 0; i < tool_command_count; i++) {
    fprintf(out, "    %s:-*) COMPREPLY=($(compgen -W '", tool_commands[i].name);
    list_options(tool_commands[i].name, out);
    fprintf(out, "' -- \"$word\")) ;;\n");
  }
  fprintf(out, "    completion:*) COMPREPLY=($(compgen -W '" SHELLS "' -- \"$word\")) ;;\n"
               "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n  esac\n}\n"
               "complete -o filenames -F _tessera tessera\n");
}

static void fish_script(FILE *out)
{
  for (int i = 0; i < tool_command_count; i++)
    fprintf(out, "complete -c tessera -n __fish_use_subcommand -a %s -d '%s'\n",
            tool_commands[i].name, tool_commands[i].summary);
  fprintf(out,
          "complete -c tessera -n '__fish_seen_subcommand_from completion' -x -a '" SHELLS "'\n");
  for (int i = 0; i < OPT_COUNT; i++) {
    const tool_option *o = &tool_options[i];
    fprintf(out, "complete -c tessera -n '__fish_seen_subcommand_from");
    for (int k = 0; k < tool_command_count; k++)
      if (tool_takes(tool_commands[k].name, (tool_opt)i))
        fprintf(out, " %s", tool_commands[k].name);
    fprintf(out, "' -l %s%s", o->name + 2, o->value ? " -r" : "");
    if (o->choices) fprintf(out, " -x -a '%s'", o->choices);
    fprintf(out, " -d '");
    /* In quotes fish reads only quotes and backslashes as special. */
    for (const char *at = o->help; *at; at++) fprintf(out, *at == '\'' ? "\\'" : "%c", *at);
    fprintf(out, "'\n");
  }
}

int tool_completion(const tool_args *args)
{
  const char *shell = args->file_count == 1 ? args->files[0] : "";
  if (!strcmp(shell, "bash")) bash_script(stdout);
  else if (!strcmp(shell, "fish")) fish_script(stdout);
  else if (!strcmp(shell, "zsh")) {
    /* This module lets zsh read completion scripts of bash. */
    printf("autoload -U +X bashcompinit && bashcompinit\n");
    bash_script(stdout);
  } else {
    fprintf(stderr, "tessera completion: takes bash, zsh or fish\n");
    return TOOL_USAGE;
  }
  return TOOL_OK;
}

/* ---- the manual page ---- */

/* Prints text as mdoc, where a line may not begin with a dot or a quote, and backslashes are
 * escaped.
 */
void tool_man_text(const char *text, FILE *out)
{
  if (*text == '.' || *text == '\'') fputs("\\&", out);
  for (; *text; text++) {
    if (*text == '\\') fputs("\\e", out);
    else if (*text == '"') fputs("\\(dq", out); /* it would quote an argument of a macro */
    else fputc(*text, out);
  }
}

/* Prints each sentence on a line of its own, the style of mdoc. */
static void put_sentences(const char *text, FILE *out)
{
  while (*text) {
    const char *end = strstr(text, ". ");
    /* Sentences of help texts end in ". "; the texts have no abbreviations with dots. */
    size_t length = end ? (size_t)(end - text) + 1 : strlen(text);
    char sentence[600];
    snprintf(sentence, sizeof sentence, "%.*s", (int)length, text);
    tool_man_text(sentence, out);
    fputc('\n', out);
    text += length + (end != NULL);
  }
}

static void put_options(const tool_command *c, FILE *out)
{
  fprintf(out, ".Bl -tag -width Ds\n");
  for (int i = 0; i < OPT_COUNT; i++) {
    const tool_option *o = &tool_options[i];
    if (!tool_takes(c->name, (tool_opt)i)) continue;
    /* mdoc would read "--" as one dash and an end of options. */
    fprintf(out, ".It Fl \\-%s%s%s\n", o->name + 2, o->value ? " Ar " : "",
            o->value ? o->value : "");
    tool_man_text(o->help, out);
    if (o->choices) fprintf(out, "; one of: %s", o->choices);
    fprintf(out, "%s.\n", o->repeated ? " (may be repeated)" : "");
  }
  fprintf(out, ".El\n");
}

int tool_man(const tool_args *args)
{
  (void)args;
  FILE *out = stdout;
  fprintf(out, ".Dd November 22, 2026\n.Dt TESSERA 1\n.Os\n.Sh NAME\n.Nm tessera\n"
               ".Nd query tables and inspect data from the shell\n.Sh SYNOPSIS\n");
  for (int i = 0; i < tool_command_count; i++) {
    fprintf(out, ".Nm\n.Cm %s\n", tool_commands[i].name);
    if (*tool_commands[i].usage) fprintf(out, ".Ar %s\n", tool_commands[i].usage);
  }
  fprintf(
      out,
      ".Sh DESCRIPTION\n.Nm\nqueries and converts tables, shows checkpoints, saved functions and\n"
      "record files, and runs programs of several processes.\n"
      "Expressions have Python's precedence, text in single quotes, and column names with\n"
      "blanks in double quotes.\n");
  for (int i = 0; i < tool_command_count; i++) {
    const tool_command *c = &tool_commands[i];
    fprintf(out, ".Ss %s\n%c%s.\n", c->name, (char)(c->summary[0] - 'a' + 'A'), c->summary + 1);
    put_sentences(c->text, out);
    put_options(c, out);
    if (*c->examples) fprintf(out, ".Pp\nExamples:\n.Bd -literal\n%s.Ed\n", c->examples);
  }
  tool_man_expressions(out);
  fprintf(
      out,
      ".Sh ENVIRONMENT\n.Bl -tag -width Ds\n"
      ".It Ev NO_COLOR\nno colours.\n"
      ".It Ev CLICOLOR_FORCE\ncolours also where the output is not a terminal.\n"
      ".It Ev COLUMNS\ncharacters of a line of the terminal.\n"
      ".It Ev TSR_LOG\nareas and levels that the library logs on standard error, such as\n"
      ".Ql execute:debug .\n"
      ".It Ev TSR_PROCESS_INDEX , TSR_PROCESS_COUNT , TSR_COORDINATOR , TSR_SECRET\n"
      "given by run to each process.\n"
      ".It Ev TSR_ON_FAILURE\nreaction of processes when another one fails: shutdown, error or "
      "shrink.\n"
      ".It Ev TSR_ISA\nthe instruction set to use: baseline, avx2 or avx512.\n.El\n"
      ".Sh EXIT STATUS\n0 success, 1 failure (the message is on standard error), 2 wrong command\n"
      "line.\n");
  return TOOL_OK;
}
