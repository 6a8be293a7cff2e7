// Two journals in one folder: the daemons do not touch each other's objects.
import { expect, test } from 'vitest'
import { configSchema } from '../../../src/config/schema.ts'
import type { ObjectGroup, ObjectSink } from '../../../src/contracts/sink.ts'
import { openSink } from '../../../src/app/delivery.ts'
import { FakeS3, s3Transport } from '../../fakes/s3.ts'
import { sinkDeps } from '../../fakes/sink-deps.ts'
import { never } from '../delivery/rig.ts'

const group: ObjectGroup = {
  stream: { workspace: 'acme', source: 'audit' },
  day: '2026-01-31',
  replay: undefined,
}
const content = { group, count: 1, first: 1, last: 1, firstAtUs: 1, lastAtUs: 1 }

test('daemons whose journals are in one folder, each with a sink of one name, mix none of their objects', async () => {
  const deps = sinkDeps()
  const begun = async (journal: string) => {
    const fake = new FakeS3()
    const config = configSchema.parse({
      journal: { path: `/state/${journal}` },
      workspaces: [{ name: 'acme', base_url: 'https://api.example.com', api_key: 'k', audit: {} }],
      sinks: [
        {
          ...{ name: 'archive', type: 's3', bucket: 'logs', endpoint: 'https://s3.test' },
          ...{ force_path_style: true, access_key_id: 'A', secret_access_key: 'B' },
        },
      ],
    })
    const network = () => ({ send: s3Transport(fake, deps.clock), close: async () => undefined })
    const [sink] = config.sinks
    if (!sink) throw new Error('no sink')
    const opened = openSink(config, sink, { ...deps, version: '0.0.0', network }, deps.log)
    const object = await (opened.sink as ObjectSink).open(0)
    await object.write(Buffer.from(`{"journal":"${journal}"}\n`))
    return { fake, object, opened }
  }
  const [one, two] = [await begun('one.db'), await begun('two.db')]
  const ready = [await one.object.end(content), await two.object.end(content)]
  for (const each of ready) await each.put(never)
  expect([one.fake.lines, two.fake.lines]).toEqual([['{"journal":"one.db"}'], ['{"journal":"two.db"}']])
  for (const { opened } of [one, two]) await opened.close()
})
