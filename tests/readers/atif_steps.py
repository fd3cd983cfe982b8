"""Validates ATIF documents with Harbor's own types, and says in JSON what it read."""

import json
import sys

from harbor.models.trajectories import Trajectory

read = []
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as file:
        trajectory = Trajectory.model_validate(json.load(file))
    read.append(
        {
            "sources": [step.source for step in trajectory.steps],
            "calls": [call.function_name for step in trajectory.steps for call in step.tool_calls or []],
            "answers": [
                result.source_call_id
                for step in trajectory.steps
                for result in (step.observation.results if step.observation else [])
            ],
            "prompt_tokens": trajectory.final_metrics.total_prompt_tokens,
            "notes": trajectory.notes,
        }
    )
print(json.dumps(read))
