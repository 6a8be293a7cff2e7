// The configuration of an `s3` sink.
import { z } from 'zod'
import type { NamedFile, Destination } from '../../contracts/sink-kind.ts'
import { duration, secret, size } from '../../core/units.ts'
import { always, isBareUrl, isEncrypted, tlsFiles, tlsOptions } from '../kit/options.ts'
import { signingKeyFault } from './evidence/manifest.ts'

// Valid bucket names: AWS is strict, and every other server has rules of its own.
const form = /^[a-z0-9](?:[a-z0-9-]|\.(?!\.))*[a-z0-9]$/
const address = /^\d+\.\d+\.\d+\.\d+$/

/** True for a name that AWS accepts; the schema bounds its length. */
export const isUsualName = (bucket: string): boolean => form.test(bucket) && !address.test(bucket)

const wanted = 'lower-case letters, digits, hyphens and single dots, and no IP address'
const awsNameFault = `AWS has no bucket of such a name: expected ${wanted}`
/** Ceph accepts some; AWS has some that are older than the rule, with path-style addresses only. */
export const unusualNameDoubt = `most servers accept only ${wanted} in a bucket name: check that this one accepts it`

const endpoint = () =>
  z.string().refine(isBareUrl, {
    error: 'expected http(s)://host:port alone, such as https://minio.example.com:9000',
  })

/** The address if none is set. */
const AWS = 'https://amazonaws.com'

/** Characters that every server, tool and URL accepts unencoded. */
const prefixPattern = /^(?:[A-Za-z0-9!_.*'()=-]+(?:\/[A-Za-z0-9!_.*'()=-]+)*)?$/

const sse = () =>
  z
    .strictObject({
      type: z
        .enum(['s3', 'kms'])
        .describe(
          '`s3`: with a key of the server (AES256); `kms`: with a key of the key management service.',
        ),
      kms_key_id: z
        .string()
        .min(1)
        .optional()
        .describe("Id or ARN of the key for `kms`; the account's own key when absent."),
    })
    .refine((given) => given.type === 'kms' || given.kms_key_id === undefined, {
      error: 'is for type kms only',
      path: ['kms_key_id'],
    })

const objectLock = () =>
  z.strictObject({
    mode: z
      .enum(['governance', 'compliance'])
      .describe(
        '`compliance`: no one can delete before the end; `governance`: users with the permission can.',
      ),
    days: z.int().min(1).max(36_500).describe('How long each object is locked after it is stored.'),
  })

const rotate = () =>
  z.strictObject({
    max_bytes: size()
      .refine((bytes) => bytes >= 1024 && bytes <= 2 ** 30, 'expected 1KiB to 1GiB')
      .prefault('16MiB')
      .describe('Most bytes of uncompressed lines in all open objects together.'),
    max_age: duration()
      .refine((ms) => ms >= 1000 && ms <= 86_400_000, 'expected 1s to 1d')
      .prefault('5m')
      .describe('Longest wait of an entry before the open objects are closed and stored.'),
  })

const evidence = () =>
  z.strictObject({
    signing_key_file: z
      .string()
      .min(1, 'expected the path of a PEM file')
      .describe('PEM file of the Ed25519 private key that signs manifests; read again for each one.'),
    interval: duration()
      .refine((ms) => ms >= 60_000 && ms <= 86_400_000, 'expected 1m to 1d')
      .prefault('1h')
      .describe('How often a manifest is stored, at round clock times, even if no entry came.'),
  })

const text = (description: string) => z.string().min(1).optional().describe(description)

type Named = Readonly<Record<'bucket', string> & Record<'force_path_style', boolean>> &
  Pick<Asked, 'endpoint'>

/** In host names, and in newer accounts, AWS accepts only usual names. */
function mayBeThere({ bucket, endpoint: at, force_path_style: inPath }: Named): boolean {
  return inPath || ownerOf(at) !== 'AWS' || isUsualName(bucket)
}

interface Asked {
  readonly endpoint?: string | undefined
  readonly sts_endpoint?: string | undefined
  readonly access_key_id?: unknown
  readonly role_arn?: string | undefined
}

/** The hosts that receive the requests; without a fixed key the environment may name a role too. */
function asked({ endpoint: at, sts_endpoint: sts, access_key_id: key, role_arn: role }: Asked): string[] {
  const bucket = at ?? AWS
  return role === undefined && key !== undefined ? [bucket] : [bucket, sts ?? AWS]
}

/** Sent in store.ts; what an object must have is also checked in bucket.ts and probe.ts. */
export const options = z
  .strictObject({
    bucket: z
      .string()
      .regex(
        /^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/,
        'expected the name of a bucket: 3 to 63 letters, digits, dots and hyphens, a letter or digit at each end',
      )
      .describe('The bucket; it must exist.'),
    prefix: z
      .string()
      .max(512)
      .transform((given) => given.replace(/\/+$/, ''))
      .refine((given) => prefixPattern.test(given) && !/(?:^|\/)\.{1,2}(?:\/|$)/.test(given), {
        error: 'expected names joined by /, such as logs/auditferry; no / before the first',
      })
      .default('')
      .describe('Common prefix of all object names, such as `logs/auditferry`.'),
    region: text(
      "The bucket's region; when absent that of the environment (`AWS_REGION`), at an `endpoint` `us-east-1`.",
    ),
    endpoint: endpoint()
      .optional()
      .describe('A server other than AWS, as scheme://host:port; also a VPC endpoint of AWS.'),
    force_path_style: z
      .boolean()
      .default(false)
      .describe('Puts the bucket in the path, not in the host name; most servers other than AWS need this.'),
    access_key_id: secret()
      .optional()
      .describe(
        'A fixed key, best as `${file:…}`; read again when its files change, as a pair. Needs `secret_access_key`.',
      ),
    secret_access_key: secret().optional().describe('The secret of `access_key_id`.'),
    role_arn: text('The role to assume before writing.'),
    web_identity_token_file: text(
      'File with the web identity token for the role, as Kubernetes mounts it; needs `role_arn`.',
    ),
    sts_endpoint: endpoint()
      .optional()
      .describe('The STS endpoint, if it is not that of AWS: scheme://host:port.'),
    compression: z
      .enum(['gzip', 'zstd', 'none'])
      .default('gzip')
      .describe('How objects are compressed; the name ends in `.ndjson.gz`, `.ndjson.zst` or `.ndjson`.'),
    sse: sse().optional().describe('Server-side encryption; the default of the bucket when absent.'),
    object_lock: objectLock()
      .optional()
      .describe(
        'Retention of each object; the bucket must have Object Lock. The default of the bucket when absent.',
      ),
    rotate: rotate().prefault({}).describe('When open objects are closed and stored.'),
    evidence: evidence()
      .optional()
      .describe('Signed manifests of what was stored, for `auditferry verify`; none when absent.'),
    tls: tlsOptions().describe(
      'Whom to trust and what to show: `ca_file`, `cert_file`, `key_file`, `server_name`.',
    ),
  })
  .refine((given) => (given.access_key_id === undefined) === (given.secret_access_key === undefined), {
    error: 'expected both access_key_id and secret_access_key, or neither',
    path: ['access_key_id'],
    when: always,
  })
  .refine((given) => given.web_identity_token_file === undefined || given.role_arn !== undefined, {
    error: 'needs role_arn',
    path: ['web_identity_token_file'],
    when: always,
  })
  .refine((given) => given.web_identity_token_file === undefined || given.access_key_id === undefined, {
    error: 'excludes access_key_id: the token replaces the key',
    path: ['web_identity_token_file'],
    when: always,
  })
  .refine((given) => !given.tls || asked(given).some(isEncrypted), {
    error: 'has an effect with https:// only: change the endpoint, or leave it out',
    path: ['tls'],
  })

  .refine((given) => mayBeThere(given), { error: awsNameFault, path: ['bucket'] })

export type S3Options = z.output<typeof options>

/** The bucket and its server, for messages. */
export const bucketOf = ({ bucket, endpoint: at }: Pick<S3Options, 'bucket' | 'endpoint'>): string =>
  `bucket ${bucket} at ${at === undefined ? 'AWS' : new URL(at).host}`

/** All of AWS counts as one server: bucket names are unique there, regardless of the address. */
function ownerOf(endpoint: string | undefined): string {
  if (endpoint === undefined) return 'AWS'
  const { host, hostname } = new URL(endpoint)
  return /(?:^|\.)amazonaws\.com(?:\.cn)?$/.test(hostname) ? 'AWS' : host
}

/** Where the objects are stored. */
export function placeOf({ bucket, endpoint: at, prefix }: S3Options): Destination {
  const within = prefix === '' ? 'no prefix' : `prefix ${prefix}`
  return { field: 'prefix', name: `bucket ${bucket} at ${ownerOf(at)}, ${within}` }
}

export const urlsOf = (given: S3Options): readonly string[] =>
  [given.endpoint, given.sts_endpoint].filter((url) => url !== undefined)

export function filesOf(given: S3Options): readonly NamedFile[] {
  const path = given.web_identity_token_file
  const token = path === undefined ? [] : [{ field: 'web_identity_token_file', path }]
  const key = given.evidence?.signing_key_file
  const signing =
    key === undefined ? [] : [{ field: 'evidence.signing_key_file', path: key, fault: signingKeyFault }]
  return [...tlsFiles(given.tls), ...token, ...signing]
}
