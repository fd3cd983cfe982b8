#!/bin/sh
# Audit log: one line for each call that the model asks for, denied ones too, as the JSON that hooks are given.
#
#   PreToolUse: [{ command: [./hooks/audit.sh, /var/log/agent-batch] }]
#
# The argument is a directory outside the workspace. It is not the log file itself, because files that a hook is started
# with are pinned: they must not change while the task runs. Each task writes a file of its own, so that tasks which
# run at the same time do not mix their lines.
#
# A call that cannot be logged does not run: every failure here is a failure of the hook, which blocks.
set -eu

if [ $# -ne 1 ]; then
  echo 'give one argument: a directory for the log' >&2
  exit 1
fi
directory=$1
case $directory/ in
"${CLAUDE_PROJECT_DIR:-}"/*)
  echo "audit log \`$directory\` lies in the workspace, where the agent could change it" >&2
  exit 1
  ;;
/*) ;;
*)
  echo "audit log \`$directory\`: expected an absolute path" >&2
  exit 1
  ;;
esac

call=$(cat)
session=$(printf '%s\n' "$call" | sed -n 's/^{"session_id":"\([A-Za-z0-9._-]*\)#\([0-9]*\)".*/\1-\2/p')
if [ -z "$session" ]; then
  echo 'the input has no session_id of the form task#attempt' >&2
  exit 1
fi
# Some shells end with 2 when a file cannot be opened, which would read as a decision; this is a failure.
printf '%s\n' "$call" >>"$directory/audit-$session.jsonl" || exit 1
