// Seeds of reloads and deaths in the midst of what reads the past again: few, since each goes through many lives.
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from './seeds.ts'

const COUNT = 60
const main = join(import.meta.dirname, 'reloads-main.ts')

test('a backfill and replays come to their ends, whole, nothing twice and truly told, over deaths, reloads and renamings', async () => {
  const { code, output } = await run(COUNT, 1, main)
  expect(code, output).toBe(0)
})
