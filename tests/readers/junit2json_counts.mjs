// Says in JSON what npm's junit2json reads of a JUnit report.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [, , modules, file] = process.argv;
const require = createRequire(modules + '/');
const { parse } = await import(pathToFileURL(require.resolve('junit2json')));
// Names are kept as they are written; the counts are numbers.
const report = await parse(readFileSync(file, 'utf8'), {});
const stated = {};
for (const word of ['tests', 'failures', 'errors', 'skipped']) stated[word] = Number(report[word]);
const counted = { tests: 0, failures: 0, errors: 0, skipped: 0 };
const names = [];
for (const suite of report.testsuite) {
  for (const one of suite.testcase ?? []) {
    counted.tests += 1;
    names.push([one.classname, one.name]);
    counted.failures += (one.failure ?? []).length;
    counted.errors += (one.error ?? []).length;
    counted.skipped += (one.skipped ?? []).length;
  }
}
console.log(JSON.stringify({ stated, counted, names }));
