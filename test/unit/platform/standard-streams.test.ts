// The log's output when the reader is slow, stops or comes back.
import { expect, test } from 'vitest'
import { LineWriter } from '../../../src/platform/standard-streams.ts'

/** A pipe that takes so many bytes, and work to be done later. */
function openPipe(memory = Infinity) {
  const pipe = { memory, text: '', due: [] as (() => void)[] }
  const writer = new LineWriter({
    put: (bytes) => {
      const taken = bytes.subarray(0, pipe.memory)
      pipe.memory -= taken.length
      pipe.text += Buffer.from(taken).toString('latin1')
      return taken.length
    },
    later: (again) => void pipe.due.push(again),
    dropped: (lines) => `dropped ${lines}\n`,
  })
  const pass = () => pipe.due.splice(0).forEach((again) => again())
  return { pipe, writer, pass }
}

test('while a reader reads, a line is out before the call returns, and nothing is left for later', () => {
  const { pipe, writer } = openPipe()
  writer.write('one\n')
  expect(pipe).toMatchObject({ text: 'one\n', due: [] })
})

test('a line that a full pipe cut continues where it was cut, in order, once there is room', () => {
  const { pipe, writer, pass } = openPipe(6)
  for (const line of ['one\n', 'two\n', 'three\n']) writer.write(line)
  expect(pipe.text).toBe('one\ntw')
  pass()
  expect(pipe).toMatchObject({ text: 'one\ntw', due: [expect.any(Function)] })
  pipe.memory = Infinity
  pass()
  expect(pipe).toMatchObject({ text: 'one\ntwo\nthree\n', due: [] })
  expect(writer.isWaiting).toBe(false)
})

test('without a reader, a mebibyte waits and the lines beyond it are counted, and the next reader gets the count', () => {
  const { pipe, writer, pass } = openPipe(0)
  const line = `${'x'.repeat(1023)}\n`
  for (let i = 0; i < 1030; i++) writer.write(line)
  pipe.memory = Infinity
  pass()
  expect(pipe.text).toBe(`${line.repeat(1024)}dropped 6\n`)
  writer.write('after\n')
  expect(pipe.text.endsWith('dropped 6\nafter\n')).toBe(true)
})

test('a single line that is larger than the limit is not lost', () => {
  const { pipe, writer, pass } = openPipe(1)
  const line = `${'x'.repeat(2 ** 21)}\n`
  writer.write(line)
  pipe.memory = Infinity
  pass()
  expect(pipe.text).toBe(line)
})
