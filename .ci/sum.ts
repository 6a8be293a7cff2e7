// Adds up vitest's JSON reports and prints `N passed, N failed, N skipped`. A missing report, a suite that did not load and a run without tests are failures.
import { readFileSync } from 'node:fs'

interface Report {
  readonly success: boolean
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly numTodoTests: number
  readonly testResults: readonly { readonly status: string; readonly assertionResults: readonly unknown[] }[]
}

const sum = { passed: 0, failed: 0, skipped: 0 }
for (const path of process.argv.slice(2)) {
  let report: Report
  try {
    report = JSON.parse(readFileSync(path, 'utf8')) as Report
  } catch (error) {
    process.stdout.write(`no report at ${path}: ${error instanceof Error ? error.message : 'unreadable'}\n`)
    sum.failed++
    continue
  }
  const unloaded = report.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && assertionResults.length === 0,
  ).length
  sum.passed += report.numPassedTests
  sum.failed += report.numFailedTests + unloaded
  sum.skipped += report.numPendingTests + report.numTodoTests
  if (!report.success && report.numFailedTests + unloaded === 0) sum.failed++
}
if (sum.passed === 0) sum.failed++
process.stdout.write(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped\n`)
process.exitCode = sum.failed > 0 ? 1 : 0
