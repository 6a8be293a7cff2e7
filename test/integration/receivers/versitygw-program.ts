// versitygw, an S3 server whose buckets are plain folders: how it is started.
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { answers, freePort, HOST } from './ports.ts'
import type { Found, Program } from './program.ts'
import { type Server, serverOf } from './server.ts'
import { toolsFolder } from './tools.ts'

const binary = join(toolsFolder, 'bin', 'versitygw')

export const program: Program = {
  name: 'versitygw',
  image: {
    variable: 'AUDITFERRY_IMAGE_VERSITYGW',
    name: 'versity/versitygw:v1.8.0',
    command: ['versitygw'],
  },
  local: { there: () => existsSync(binary), command: [binary], bring: '.ci/tools/s3.sh' },
}

export interface VersitygwOptions {
  /** It keeps each object as a plain file in `data/<bucket>` there. */
  readonly folder: string
  readonly buckets: readonly string[]
  readonly accessKey: string
  readonly secret: string
}

export async function versitygwOf(
  found: Found,
  { folder, buckets, accessKey, secret }: VersitygwOptions,
): Promise<Server & { readonly url: string }> {
  const number = await freePort()
  const [data, versions] = [join(folder, 'data'), join(folder, 'versions')]
  for (const path of [versions, ...buckets.map((bucket) => join(data, bucket))])
    mkdirSync(path, { recursive: true })
  const args = ['--port', `${found.listenAt}:${number}`, 'posix', '--versioning-dir', versions, data]
  const env = { ROOT_ACCESS_KEY: accessKey, ROOT_SECRET_KEY: secret }
  const url = `http://${HOST}:${number}`
  const start = { args, env, folder, port: { number, protocol: 'tcp' as const } }
  return { url, ...serverOf(found, start, () => answers(url)) }
}
