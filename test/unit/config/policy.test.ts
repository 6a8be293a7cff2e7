// A sink's content policy as an operator writes it:
// the parsed policy, and the faults of its key files.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readTextFile, realFiles } from '../../../src/config/files.ts'
import { examineConfig, loadConfig } from '../../../src/config/load.ts'
import { checkEnvironment } from '../../../src/config/environment-checks.ts'

const text = (sink: string) => `workspaces:
  - { name: acme, base_url: "https://a.example.com", api_key: planted, audit: {} }
sinks:
  - name: a
    type: stdout
${sink}`

test('a policy is parsed into the fields of the code', () => {
  const config = text(`    redact:
      - { fields: [query, "Client Matter #"], with: hash, key_file: /run/key }
      - { fields: [response], with: truncate, bytes: 0 }
      - { fields: [metadata], with: drop }
    deny: { cm_id: ["0042"], "Client Matter #": ["x", "y"] }
`)
  const [sink] = loadConfig('a.yaml', { env: {}, readFile: () => config }).sinks
  expect(sink?.redact).toEqual([
    { fields: ['query', 'Client Matter #'], with: 'hash', keyFile: '/run/key' },
    { fields: ['response'], with: 'truncate', bytes: 0 },
    { fields: ['metadata'], with: 'drop' },
  ])
  expect(sink?.deny).toEqual({ cm_id: ['0042'], 'Client Matter #': ['x', 'y'] })
})

test('validate checks each key file, and prints none of its content', () => {
  const folder = mkdtempSync(join(tmpdir(), 'policy-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const put = (name: string, content: string | Buffer) => {
    writeFileSync(join(folder, name), content)
    return join(folder, name)
  }
  const rules = [
    put('good', `${'planted-'.repeat(8)}\n`),
    put('short', '  planted  \n'),
    put('binary', Buffer.alloc(64, 0xff)),
    join(folder, 'none'),
  ].map((file, index) => `      - { fields: [f${index}], with: hash, key_file: ${file} }\n`)
  const file = put('a.yaml', text(`    redact:\n${rules.join('')}`))
  const { loaded } = examineConfig(file, { env: {}, readFile: readTextFile })
  const { faults } = checkEnvironment(loaded ?? expect.fail(), realFiles, Date.now())
  const advice = 'make one with: openssl rand -hex 32'
  const held =
    ' (run starts anyway, keeps the entries of this sink in the journal, and checks for the file again automatically)'
  expect(faults.map(({ line, path, message }) => `${line} ${JSON.stringify(path)} ${message}`)).toEqual([
    `8 ["sinks",0,"redact",1,"key_file"] the file cannot be used: its key is shorter than 32 bytes: ${advice}${held}`,
    `9 ["sinks",0,"redact",2,"key_file"] the file cannot be used: it is not text: ${advice}${held}`,
    `10 ["sinks",0,"redact",3,"key_file"] the file cannot be used: there is no such file${held}`,
  ])
})
