// Requests to the mock's vault, in memory and on a virtual clock.
import type { MockOptions } from '../../../src/mock/mock.ts'
import { bearer, context } from './stage.ts'

interface Listed {
  readonly response: {
    readonly content: {
      readonly pagination: { page: number; per_page: number; total: number; total_pages: number }
      readonly projects: readonly { id: string; name: string; project_updated_at: string }[]
    }
  }
}

export function vaultStage(options: Omit<MockOptions, 'clock'> = {}) {
  const { clock, mock } = context({ limits: { vault: 0 }, ...options })
  const call = async (
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    sent: { body?: Uint8Array; headers?: Record<string, string> } = {},
  ) => {
    const { body, headers = {} } = sent
    const reply = await mock.transport(
      {
        method,
        url: `https://api.example.com/api/v1/vault${path}`,
        headers: { ...bearer, ...headers },
        ...(body ? { body } : {}),
      },
      new AbortController().signal,
    )
    const pieces: Uint8Array[] = []
    for await (const piece of reply.body) pieces.push(piece)
    const text = Buffer.concat(pieces).toString()
    return { status: reply.status, text, json: (): unknown => JSON.parse(text) }
  }
  const list = async (query = '') => {
    const { status, text, json } = await call('GET', `/workspace/projects${query}`)
    if (status !== 201 && status !== 200) throw new Error(`status ${status}: ${text}`)
    const { pagination, projects } = (json() as Listed).response.content
    return { status, pagination, projects, ids: projects.map(({ id }) => id) }
  }
  return { clock, mock, call, list }
}

/** A multipart form as clients send it. */
export function form(
  parts: readonly { name: string; fileName?: string; text: string }[],
  boundary = 'b0und',
) {
  const pieces = parts.map(({ name, fileName, text }) => {
    const file = fileName === undefined ? '' : `; filename="${fileName}"\r\ncontent-type: text/plain`
    return `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n\r\n${text}\r\n`
  })
  return {
    body: Buffer.from(`${pieces.join('')}--${boundary}--\r\n`),
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
  }
}
