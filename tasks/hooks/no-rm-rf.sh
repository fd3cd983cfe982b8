#!/bin/sh
# PreToolUse hook: no Bash command that holds `rm -rf`, whatever the mode and the rules say.
#
# It is an example of a hook, not of a good guard. A substring is easy to miss: `rm -r -f x`, `rm  -rf x` (two blanks),
# `rm -fr x`, `rm --recursive --force x`, `find x -delete` and every script do the same and pass. What the gate must
# hold, say as a rule: not allowing `Bash(rm:*)` is stronger than this file.
#
# Exit 2 blocks with the text on stderr. Any other exit but 0 counts as a failure, which blocks too; so `set -e` makes
# this script safe where something that it needs is not there.
set -eu

call=$(cat)
case $call in
*'"tool_name":"Bash"'*) ;;
*) exit 0 ;;
esac
case $call in
*'rm -rf'*)
  # shellcheck disable=SC2016 # the backticks are for the reader
  echo '`rm -rf` is always blocked; remove single files instead' >&2
  exit 2
  ;;
esac
