// Adds up vitest's JSON reports and prints what failed and `N passed, N failed, N skipped`. A missing report, a suite that did not load and a run without tests are failures.
import { readFileSync } from 'node:fs'

interface Report {
  readonly success: boolean
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly numTodoTests: number
  readonly testResults: readonly SuiteFile[]
}

interface SuiteFile {
  readonly name: string
  readonly status: string
  readonly message: string
  readonly assertionResults: readonly TestResult[]
}

interface TestResult {
  readonly fullName: string
  readonly status: string
  readonly failureMessages: readonly string[]
}

const SHOWN_LENGTH = 1_500

/** Told once more at the end: who reads a long log from behind sees it first. */
function tell(what: string, why: readonly string[]): void {
  process.stdout.write(`FAILED ${what}\n${why.join('\n').slice(0, SHOWN_LENGTH)}\n\n`)
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
  )
  for (const { name, message } of unloaded) tell(name, [message])
  for (const { name, assertionResults } of report.testResults)
    for (const { fullName, status, failureMessages } of assertionResults)
      if (status === 'failed') tell(`${name}: ${fullName}`, failureMessages)
  sum.passed += report.numPassedTests
  sum.failed += report.numFailedTests + unloaded.length
  sum.skipped += report.numPendingTests + report.numTodoTests
  if (!report.success && report.numFailedTests + unloaded.length === 0) sum.failed++
}
if (sum.passed === 0) sum.failed++
process.stdout.write(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped\n`)
process.exitCode = sum.failed > 0 ? 1 : 0
