// The check of a large journal, a program of its own: exits 0 where the file that it is given is sound. Knows no configuration, and ends with who asked.
import { isMainThread, Worker, workerData } from 'node:worker_threads'
import { checkDatabase } from './journal/sqlite/database.ts'

if (isMainThread) {
  // The check is one long call, in which a thread hears nothing and cannot be ended. Left alone it would hold the file's lock to its end.
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  const checking = new Worker(new URL(import.meta.url), { workerData: process.argv[2] })
  // Who asked opens the file too, and has the words for what is wrong with it.
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
