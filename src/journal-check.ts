// Checks a large journal in a process of its own: exits 0 if the given file is sound. Ends with its
// parent, and reads no configuration.
import { isMainThread, Worker, workerData } from 'node:worker_threads'
import { checkDatabase } from './journal/sqlite/database.ts'

if (isMainThread) {
  // The check is one long call that cannot be interrupted: without its parent it would keep the
  // file's lock until it ends.
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  const checking = new Worker(new URL(import.meta.url), { workerData: process.argv[2] })
  // The parent opens the file too, and reports the fault.
  checking.on('error', () => undefined)
  checking.once('exit', (code) => process.exit(code))
} else {
  try {
    checkDatabase(String(workerData))
  } catch {
    // Any other end closes the file, and that writes its log into it.
    process.kill(process.pid, 'SIGKILL')
  }
}
