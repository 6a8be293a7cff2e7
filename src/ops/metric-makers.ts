// How a metric is declared: its kind, our prefix, the registry that it belongs to.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

export function makers(registry: Registry) {
  const registers = [registry]
  return {
    counter: (name: string, help: string, ...labelNames: string[]) =>
      new Counter({ name: `auditferry_${name}`, help, labelNames, registers }),
    gauge: (name: string, help: string, ...labelNames: string[]) =>
      new Gauge({ name: `auditferry_${name}`, help, labelNames, registers }),
    histogram: (name: string, help: string, buckets: number[], ...labelNames: string[]) =>
      new Histogram({ name: `auditferry_${name}`, help, buckets, labelNames, registers }),
  }
}

export type Makers = ReturnType<typeof makers>
