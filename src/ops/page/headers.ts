// The headers that let the page's own style and script in, by their hashes, and nothing else.
import { createHash } from 'node:crypto'
import { script } from './script.ts'
import { style } from './style.ts'

const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64')

/** Another one: the page that is open was made by another version, and loads itself anew. */
export const edition = sha256(style + script).slice(0, 12)

/** Nothing is loaded, framed, sent or run; the script may ask the place that it came from. */
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${sha256(style)}'`,
  `script-src 'sha256-${sha256(script)}'`,
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
]

export const pageHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': policy.join('; '),
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
}
