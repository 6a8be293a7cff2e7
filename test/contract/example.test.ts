// The example of docs/write-a-sink.md: it is the text of a file that compiles, and it passes the suite that all sinks pass.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { httpLinesBench } from './example/http-lines-bench.ts'
import { sinkContract } from './sink.contract.ts'

sinkContract('http_lines, the example of docs/write-a-sink.md', httpLinesBench, {
  refuse: 'it names no line, it refuses a batch as a whole',
  later: 'its answer comes at once',
})

test('docs/write-a-sink.md shows the example exactly as in its file', () => {
  const source = readFileSync('test/contract/example/http-lines.ts', 'utf8')
  // In the document it is where a sink is: in a folder of its own below src/sinks.
  const placed = source.replaceAll("'../../../src/sinks/", "'../").replaceAll("'../../../src/", "'../../")
  expect(readFileSync('docs/write-a-sink.md', 'utf8')).toContain(`\`\`\`ts\n${placed}\`\`\``)
})
