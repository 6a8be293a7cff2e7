// The credentials of a request: a fixed key, an assumed role, a web identity token, or what the
// environment offers.
import type { Clock } from '../../core/clock.ts'
import { ConnectorError } from '../../core/errors.ts'
import { SecretLook } from '../../core/secret.ts'
import type { LibraryHandler } from './handler.ts'
import type { S3Options } from './options.ts'
import { codeOf, s3Error, saysLater } from './reply.ts'

const SESSION = 'auditferry'

interface Key {
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

type Provider = (properties?: Record<string, unknown>) => Promise<Key>

interface Surroundings {
  readonly handler: LibraryHandler
  readonly now: () => number
}

function fixedKey({ access_key_id: id, secret_access_key: secret }: S3Options): Key | undefined {
  if (id === undefined || secret === undefined) return undefined
  return { accessKeyId: id.reveal(), secretAccessKey: secret.reveal() }
}

/** Without one the library takes that of the environment. */
export function regionOf({ region, endpoint }: S3Options): { readonly region?: string } {
  const used = region ?? (endpoint === undefined ? undefined : 'us-east-1')
  return used === undefined ? {} : { region: used }
}

/** Requests role credentials like bucket requests: through our transport, one try at a time. */
function askedThrough(options: S3Options, handler: LibraryHandler) {
  const { sts_endpoint: endpoint } = options
  return {
    requestHandler: handler,
    maxAttempts: 1,
    ...regionOf(options),
    ...(endpoint === undefined ? {} : { endpoint }),
  }
}

async function providerOf(options: S3Options, handler: LibraryHandler): Promise<Provider> {
  const providers = await import('@aws-sdk/credential-providers')
  const { role_arn: roleArn, web_identity_token_file: webIdentityTokenFile } = options
  const clientConfig = askedThrough(options, handler)
  if (roleArn !== undefined && webIdentityTokenFile !== undefined)
    return providers.fromTokenFile({ webIdentityTokenFile, roleArn, roleSessionName: SESSION, clientConfig })
  const own = fixedKey(options)
  if (roleArn !== undefined)
    return providers.fromTemporaryCredentials({
      params: { RoleArn: roleArn, RoleSessionName: SESSION },
      clientConfig,
      ...(own === undefined ? {} : { masterCredentials: own }),
    })
  return providers.fromNodeProviderChain({ clientConfig })
}

/** Why no role could be assumed. The server's text is not quoted. */
function refused(error: unknown, options: S3Options, now: number): ConnectorError {
  if (error instanceof ConnectorError) return error
  const inner = error instanceof Error && error.cause instanceof ConnectorError ? error.cause : undefined
  if (inner) return inner
  if (saysLater(error)) return s3Error('The service that issues role credentials', error, now)
  const how =
    options.web_identity_token_file !== undefined
      ? 'for the token of web_identity_token_file: check that the file is there and that the role trusts its issuer'
      : options.role_arn !== undefined
        ? 'for role_arn: check that the role exists and that its trust policy allows this caller'
        : // Also for `verify s3://…`, which has no configuration.
          'in the environment: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where AWS gives a role; in the configuration a sink takes access_key_id and secret_access_key, role_arn or web_identity_token_file'
  const code = /^[A-Za-z]{1,48}$/.test(codeOf(error)) ? ` (${codeOf(error)})` : ''
  return new ConnectorError('unauthorized', `no credentials ${how}${code}`)
}

/** The library calls it when its credentials expire. */
export function credentialsOf(options: S3Options, { handler, now }: Surroundings): Provider {
  const fixed = options.role_arn === undefined ? fixedKey(options) : undefined
  if (fixed) return async () => fixed
  let provider: Promise<Provider> | undefined
  return async (properties) => {
    try {
      provider ??= providerOf(options, handler)
      return await (
        await provider
      )(properties)
    } catch (error) {
      throw refused(error, options, now())
    }
  }
}

/** The fixed key, if there is one; its two halves are read together. */
export const keyLook = (
  { access_key_id: id, secret_access_key: secret }: S3Options,
  clock: Pick<Clock, 'elapsed'>,
): SecretLook => new SecretLook(id && secret ? [id, secret] : [], clock)
