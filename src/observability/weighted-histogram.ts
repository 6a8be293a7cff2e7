// A Prometheus histogram whose observations have a weight: a sample for a thousand entries costs as
// much as one for a single entry.
import type { Metric, Registry } from 'prom-client'

interface Series {
  readonly labels: Readonly<Record<string, string>>
  /** entries in each bucket, not cumulative; the last one is +Inf */
  readonly counts: Float64Array
  sum: number
}

interface Value {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

interface WeightedObserver {
  observe(value: number, count: number): void
}

export class WeightedHistogram {
  readonly name: string
  readonly help: string
  readonly type = 'histogram'
  readonly aggregator = 'sum'
  readonly #buckets: readonly number[]
  readonly #series: Series[] = []

  constructor(options: { name: string; help: string; buckets: readonly number[]; registry: Registry }) {
    this.name = options.name
    this.help = options.help
    this.#buckets = options.buckets
    // prom-client needs only name and get() of a metric, but its types require its own classes.
    options.registry.registerMetric(this as unknown as Metric)
  }

  /** One series; exported from now on, starting at zero. */
  labels(labels: Readonly<Record<string, string>>): WeightedObserver {
    const series: Series = { labels, counts: new Float64Array(this.#buckets.length + 1), sum: 0 }
    this.#series.push(series)
    return {
      observe: (value, count) => {
        const found = this.#buckets.findIndex((bound) => value <= bound)
        const bucket = found < 0 ? this.#buckets.length : found
        series.counts[bucket] = (series.counts[bucket] ?? 0) + count
        series.sum += value * count
      },
    }
  }

  async get(): Promise<object> {
    const { name, help, type, aggregator } = this
    return { name, help, type, aggregator, values: this.#series.flatMap((series) => this.#values(series)) }
  }

  #values({ labels, counts, sum }: Series): Value[] {
    const values: Value[] = []
    let total = 0
    counts.forEach((count, bucket) => {
      total += count
      const le = String(this.#buckets[bucket] ?? '+Inf')
      values.push({ metricName: `${this.name}_bucket`, labels: { ...labels, le }, value: total })
    })
    values.push({ metricName: `${this.name}_sum`, labels, value: sum })
    values.push({ metricName: `${this.name}_count`, labels, value: total })
    return values
  }
}
