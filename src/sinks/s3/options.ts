// What an operator may say about a bucket.
import { z } from 'zod'
import type { NamedFile, NamedPlace } from '../../contracts/sink-kind.ts'
import { duration, secret, size } from '../../core/units.ts'
import { always, isBareUrl, isEncrypted, tlsFiles, tlsOptions } from '../kit/options.ts'
import { signingKeyFault } from './evidence/manifest.ts'

// Which names a bucket may have: AWS is strict, other servers are each as strict as they like.
const form = /^[a-z0-9](?:[a-z0-9-]|\.(?!\.))*[a-z0-9]$/
const address = /^\d+\.\d+\.\d+\.\d+$/

/** True for a name that AWS would take; the schema bounds its length. */
export const isUsualName = (bucket: string): boolean => form.test(bucket) && !address.test(bucket)

const wanted = 'small letters, digits, hyphens and single dots, and no IP address'
const awsNameFault = `AWS has no bucket of such a name: expected ${wanted}`
/** Ceph takes some, and AWS still has some that are older than the rule, in the path alone. */
export const unusualNameDoubt = `most servers have no bucket of such a name, but of ${wanted}: look whether this one has`

const endpoint = () =>
  z
    .string()
    .refine(isBareUrl, {
      error: 'expected http(s)://host:port alone, such as https://minio.example.com:9000',
    })

/** Where an address is left out. */
const AWS = 'https://amazonaws.com'

/** Characters that every server, every tool and every URL takes as they are. */
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
      .describe('`compliance`: nobody may delete before the end; `governance`: who has the right to may.'),
    days: z.int().min(1).max(36_500).describe('How long each object is locked, from its storing on.'),
  })

const rotate = () =>
  z.strictObject({
    max_bytes: size()
      .refine((bytes) => bytes >= 1024 && bytes <= 2 ** 30, 'expected 1KiB to 1GiB')
      .prefault('16MiB')
      .describe('Lines, before compression, that all open objects together hold at most.'),
    max_age: duration()
      .refine((ms) => ms >= 1000 && ms <= 86_400_000, 'expected 1s to 1d')
      .prefault('5m')
      .describe('How long an entry waits at most before the open objects are closed and stored.'),
  })

const evidence = () =>
  z.strictObject({
    signing_key_file: z
      .string()
      .min(1, 'expected the path of a PEM file')
      .describe('PEM file of the Ed25519 private key that signs manifests; read anew for each one.'),
    interval: duration()
      .refine((ms) => ms >= 60_000 && ms <= 86_400_000, 'expected 1m to 1d')
      .prefault('1h')
      .describe("How often a manifest is stored, at the clock's round times; also when nothing came."),
  })

const text = (description: string) => z.string().min(1).optional().describe(description)

type Named = Readonly<Record<'bucket', string> & Record<'force_path_style', boolean>> &
  Pick<Asked, 'endpoint'>

/** In the host name, or from a newer account, AWS has usual names alone. */
function mayBeThere({ bucket, endpoint: at, force_path_style: inPath }: Named): boolean {
  return inPath || ownerOf(at) !== 'AWS' || isUsualName(bucket)
}

interface Asked {
  readonly endpoint?: string | undefined
  readonly sts_endpoint?: string | undefined
  readonly access_key_id?: unknown
  readonly role_arn?: string | undefined
}

/** Whom its requests go to; without a fixed key the environment may name a role too. */
function asked({ endpoint: at, sts_endpoint: sts, access_key_id: key, role_arn: role }: Asked): string[] {
  const bucket = at ?? AWS
  return role === undefined && key !== undefined ? [bucket] : [bucket, sts ?? AWS]
}

export const options = z
  .strictObject({
    bucket: z
      .string()
      .regex(
        /^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/,
        'expected the name of a bucket: 3 to 63 letters, digits, dots and hyphens, a letter or digit at each end',
      )
      .describe('The bucket; it must be there.'),
    prefix: z
      .string()
      .max(512)
      .transform((given) => given.replace(/\/+$/, ''))
      .refine((given) => prefixPattern.test(given) && !/(?:^|\/)\.{1,2}(?:\/|$)/.test(given), {
        error: 'expected names joined by /, such as logs/auditferry; no / before the first',
      })
      .default('')
      .describe('What the names of all objects begin with, such as `logs/auditferry`.'),
    region: text(
      "The bucket's region; when absent that of the environment (`AWS_REGION`), at an `endpoint` `us-east-1`.",
    ),
    endpoint: endpoint()
      .optional()
      .describe('Another server than AWS, as scheme://host:port; also a VPC endpoint of AWS.'),
    force_path_style: z
      .boolean()
      .default(false)
      .describe('The bucket in the path, not in the host name: what most servers but AWS need.'),
    access_key_id: secret()
      .optional()
      .describe(
        'A fixed key, best as `${file:…}`; read again when its files change, as a pair. Needs `secret_access_key`.',
      ),
    secret_access_key: secret().optional().describe('The secret of `access_key_id`.'),
    role_arn: text('The role to take on before writing.'),
    web_identity_token_file: text(
      'File with the token that stands for the role, as Kubernetes mounts it; needs `role_arn`.',
    ),
    sts_endpoint: endpoint()
      .optional()
      .describe('Where roles are taken on, where it is not AWS: scheme://host:port.'),
    compression: z
      .enum(['gzip', 'zstd', 'none'])
      .default('gzip')
      .describe('How objects are compressed; the name ends in `.ndjson.gz`, `.ndjson.zst` or `.ndjson`.'),
    sse: sse().optional().describe('Encryption at the server; as the bucket is set when absent.'),
    object_lock: objectLock()
      .optional()
      .describe(
        'Retention of each object; the bucket must have Object Lock. As the bucket is set when absent.',
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
    error: 'wants role_arn beside it',
    path: ['web_identity_token_file'],
    when: always,
  })
  .refine((given) => given.web_identity_token_file === undefined || given.access_key_id === undefined, {
    error: 'wants no access_key_id beside it: the token stands for the key',
    path: ['web_identity_token_file'],
    when: always,
  })
  .refine((given) => !given.tls || asked(given).some(isEncrypted), {
    error: 'has an effect with https:// only: change the endpoint, or leave it out',
    path: ['tls'],
  })

  .refine((given) => mayBeThere(given), { error: awsNameFault, path: ['bucket'] })

export type S3Options = z.output<typeof options>

/** The bucket and who has it, for messages. */
export const bucketOf = ({ bucket, endpoint: at }: Pick<S3Options, 'bucket' | 'endpoint'>): string =>
  `bucket ${bucket} at ${at === undefined ? 'AWS' : new URL(at).host}`

/** All of AWS is one: the name of a bucket is given once there, whatever the address. */
function ownerOf(endpoint: string | undefined): string {
  if (endpoint === undefined) return 'AWS'
  const { host, hostname } = new URL(endpoint)
  return /(?:^|\.)amazonaws\.com(?:\.cn)?$/.test(hostname) ? 'AWS' : host
}

/** Where its objects lie. */
export function placeOf({ bucket, endpoint: at, prefix }: S3Options): NamedPlace {
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
