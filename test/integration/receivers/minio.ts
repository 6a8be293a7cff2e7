// MinIO, an S3 server that encrypts.
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { freePort, HOST } from './ports.ts'
import { find } from './program.ts'
import { type Server, serverOf } from './server.ts'
import { toolsFolder } from './tools.ts'

const binary = join(toolsFolder, 'bin', 'minio')

export const foundMinio = await find({
  name: 'MinIO',
  image: {
    variable: 'AUDITFERRY_IMAGE_MINIO',
    name: 'quay.io/minio/minio:RELEASE.2025-09-07T16-13-09Z',
    command: ['minio'],
  },
  local: { there: () => existsSync(binary), command: [binary], bring: 'npm run test:minio' },
})

interface MinioOptions {
  readonly folder: string
  readonly accessKey: string
  readonly secret: string
}

/** Its one encryption key is `my-key`. */
export async function minio(options: MinioOptions): Promise<Server & { readonly url: string }> {
  const { folder, accessKey, secret } = options
  const number = await freePort()
  mkdirSync(join(folder, 'data'), { recursive: true })
  const env = {
    ...{ MINIO_ROOT_USER: accessKey, MINIO_ROOT_PASSWORD: secret },
    MINIO_KMS_SECRET_KEY: `my-key:${randomBytes(32).toString('base64')}`,
  }
  const args = ['server', '--address', `${foundMinio.listenAt}:${number}`, join(folder, 'data')]
  const url = `http://${HOST}:${number}`
  const ready = () => fetch(`${url}/minio/health/ready`).then(({ ok }) => ok, () => false) // prettier-ignore
  const start = { args, env, folder, port: { number, protocol: 'tcp' as const } }
  return { url, ...serverOf(foundMinio, start, ready) }
}
