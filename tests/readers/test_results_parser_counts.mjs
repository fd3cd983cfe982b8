// Says in JSON what npm's test-results-parser reads of a JUnit report. To it, an error is a failed case.
import { createRequire } from 'node:module';

const [, , modules, file] = process.argv;
const require = createRequire(modules + '/');
const { parseV2 } = require('test-results-parser');
const { result, errors } = parseV2({ type: 'junit', files: [file] });
if (errors?.length) throw new Error(errors.join('\n'));
const words = { PASS: 'passed', FAIL: 'failed', SKIP: 'skipped' };
const counted = { passed: 0, failed: 0, skipped: 0 };
const names = [];
for (const suite of result.suites) {
  for (const one of suite.cases) {
    counted[words[one.status]] += 1;
    names.push(one.name);
  }
}
const attachments = result.suites.flatMap((suite) => suite.cases.flatMap((one) => one.attachments.map((found) => found.path)));
const stated = { total: result.total, passed: result.passed, failed: result.failed, errors: result.errors, skipped: result.skipped };
console.log(JSON.stringify({ stated, counted, names, attachments }));
