"""Says in JSON what PyPI's junitparser reads of a JUnit report: totals as stated, and as counted from the cases."""

import json
import sys

from junitparser import Error, Failure, JUnitXml, Skipped
from junitparser.xunit2 import JUnitXml as WithReruns

report = JUnitXml.fromfile(sys.argv[1])
counted = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
names = []
for suite in report:
    for case in suite:
        counted["tests"] += 1
        names.append([case.classname, case.name])
        for result in case.result:
            for kind, word in ((Failure, "failures"), (Error, "errors"), (Skipped, "skipped")):
                counted[word] += isinstance(result, kind)
reruns = 0
for suite in WithReruns.fromfile(sys.argv[1]):
    for case in suite:
        reruns += len(case.rerun_failures()) + len(case.flaky_failures())
stated = {word: getattr(report, word) for word in counted}
print(json.dumps({"stated": stated, "counted": counted, "names": names, "reruns": reruns}))
