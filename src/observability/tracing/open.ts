// Whether spans are sent, and where, by OpenTelemetry's standard variables. If off, SDK and
// exporter are not loaded.
import type * as Resources from '@opentelemetry/resources'
import type * as Sdk from '@opentelemetry/sdk-trace'
import type { Sampler, SpanExporter } from '@opentelemetry/sdk-trace'
import type { Clock } from '../../core/clock.ts'
import { within } from '../../core/clock.ts'
import type { Log } from '../../core/log.ts'
import type { Tracing } from '../../contracts/reporter.ts'

type Environment = Readonly<Record<string, string | undefined>>

interface TracingOptions {
  readonly env: Environment
  readonly version: string
  readonly log: Log
  readonly clock: Clock
}

/** Time for pending spans at the end; a collector that hangs must not delay the stop. */
const CLOSE_MS = 1_000
/** result code of a successful export */
const EXPORTED = 0
const TRACES_ENDPOINT = 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'
const ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT'
const PROTOCOLS = ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL']

const isSet = (value: string | undefined): value is string => value !== undefined && value.trim() !== ''

/** On with an endpoint or exporter `otlp`; off with OTEL_SDK_DISABLED=true or exporter `none`. */
function isOn(env: Environment): boolean {
  const exporter = env['OTEL_TRACES_EXPORTER']?.trim()
  if (env['OTEL_SDK_DISABLED']?.trim().toLowerCase() === 'true' || exporter === 'none') return false
  return exporter === 'otlp' || isSet(env[TRACES_ENDPOINT]) || isSet(env[ENDPOINT])
}

/** The variable for traces unchanged, or the common one with the path of traces appended. */
function urlOf(env: Environment): string {
  const [traces, all] = [env[TRACES_ENDPOINT], env[ENDPOINT]]
  if (isSet(traces)) return traces
  return `${(isSet(all) ? all : 'http://localhost:4318').replace(/\/+$/, '')}/v1/traces`
}

/** OTEL_TRACES_SAMPLER; a `parentbased_` one decides per trace, here also for child spans. */
function samplerOf(
  { ParentBasedSampler, TraceIdRatioBasedSampler, ...sdk }: typeof Sdk,
  env: Environment,
): Sampler {
  const name = env['OTEL_TRACES_SAMPLER']?.trim() ?? ''
  const ratio = Number(env['OTEL_TRACES_SAMPLER_ARG'] ?? 1)
  const root = name.endsWith('always_off')
    ? new sdk.AlwaysOffSampler()
    : name.endsWith('traceidratio') && ratio >= 0 && ratio <= 1
      ? new TraceIdRatioBasedSampler(ratio)
      : new sdk.AlwaysOnSampler()
  return new ParentBasedSampler({ root })
}

/** The exporter reports nothing: lost spans are logged once, until spans arrive again. */
function reports(exporter: SpanExporter, log: Log): SpanExporter {
  let warned = false
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const code: number = result.code
        const failed = code !== EXPORTED
        if (failed && !warned)
          log.warn(
            'The collector does not accept spans, and they are lost: check the collector named in the environment (OTEL_EXPORTER_OTLP_…)',
            { spans: spans.length },
          )
        warned = failed
        done(result)
      }),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
    shutdown: () => exporter.shutdown(),
  }
}

/** Where spans go; undefined if it is no URL. Its value is not logged: it may have a password. */
function collectorOf(env: Environment, log: Log): string | undefined {
  const url = urlOf(env)
  if (URL.canParse(url)) return url
  const variable = isSet(env[TRACES_ENDPOINT]) ? TRACES_ENDPOINT : ENDPOINT
  log.warn('Tracing is off: the variable for the collector is not a URL', { variable })
  return undefined
}

function warnOfProtocol(env: Environment, log: Log): void {
  const configured = PROTOCOLS.map((name) => env[name]).find(isSet)
  if (configured !== undefined && configured !== 'http/json')
    log.warn('Spans are sent as OTLP http/json, although another protocol is configured', { configured })
}

/** The environment's values for the service take precedence over ours. */
function resourceOf(resources: typeof Resources, version: string): Resources.Resource {
  const detectors = [resources.resourceAttributesEnvDetector, resources.serviceNameEnvDetector]
  return resources
    .defaultResource()
    .merge(resources.resourceFromAttributes({ 'service.name': 'auditferry', 'service.version': version }))
    .merge(resources.detectResources({ detectors }))
}

/**
 * The exporter itself reads headers, certificates, timeout and compression from the variables.
 * Undefined if tracing is off.
 */
export async function openTracing({
  env,
  version,
  log,
  clock,
}: TracingOptions): Promise<Tracing | undefined> {
  const url = isOn(env) ? collectorOf(env, log) : undefined
  if (url === undefined) return undefined
  const [sdk, resources, { OTLPTraceExporter }, { tracingOver }] = await Promise.all([
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('./traced.ts'),
  ])
  warnOfProtocol(env, log)
  const exporter = reports(new OTLPTraceExporter({ url }), log)
  const provider = new sdk.TracerProvider({
    resource: resourceOf(resources, version),
    sampler: samplerOf(sdk, env),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter })],
  })
  log.info('Tracing is on')
  return tracingOver(provider.getTracer('auditferry', version), async () => {
    await within(
      CLOSE_MS,
      clock,
      provider.shutdown().catch(() => undefined),
    )
  })
}
