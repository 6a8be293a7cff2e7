// versitygw, an S3 server whose buckets are plain folders.
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { answers, freePort, HOST } from './ports.ts'
import { find } from './program.ts'
import { type Server, serverOf } from './server.ts'
import { toolsFolder } from './tools.ts'

const binary = join(toolsFolder, 'bin', 'versitygw')

export const foundVersitygw = await find({
  name: 'versitygw',
  image: {
    variable: 'AUDITFERRY_IMAGE_VERSITYGW',
    name: 'versity/versitygw:v1.8.0',
    command: ['versitygw'],
  },
  local: { there: () => existsSync(binary), command: [binary], bring: '.ci/tools/s3.sh' },
})

interface VersitygwOptions {
  /** It keeps each object as a plain file in `data/<bucket>` there. */
  readonly folder: string
  readonly buckets: readonly string[]
  readonly accessKey: string
  readonly secret: string
}

export async function versitygw(options: VersitygwOptions): Promise<Server & { readonly url: string }> {
  const { folder, buckets, accessKey, secret } = options
  const number = await freePort()
  const [data, versions] = [join(folder, 'data'), join(folder, 'versions')]
  for (const path of [versions, ...buckets.map((bucket) => join(data, bucket))])
    mkdirSync(path, { recursive: true })
  const args = ['--port', `${foundVersitygw.listenAt}:${number}`, 'posix', '--versioning-dir', versions, data]
  const env = { ROOT_ACCESS_KEY: accessKey, ROOT_SECRET_KEY: secret }
  const url = `http://${HOST}:${number}`
  const start = { args, env, folder, port: { number, protocol: 'tcp' as const } }
  return { url, ...serverOf(foundVersitygw, start, () => answers(url)) }
}
