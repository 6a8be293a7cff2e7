// Makes JSON Schemas for kubeconform, unknown fields refused: from Kubernetes' own swagger.json, or from custom resource definitions.
// `kubernetes-schemas.ts <folder> <swagger.json | crd.yaml …>`; the folder is whole when it holds a file `done`.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'

interface Schema {
  properties?: Record<string, Schema>
  additionalProperties?: boolean | Schema
  items?: Schema
  type?: string | string[]
  format?: string
  $ref?: string
  'x-kubernetes-group-version-kind'?: readonly { group: string; version: string; kind: string }[]
  'x-kubernetes-preserve-unknown-fields'?: boolean
  'x-kubernetes-int-or-string'?: boolean
}

interface Crd {
  readonly spec: {
    readonly names: { readonly kind: string }
    readonly versions: readonly {
      readonly name: string
      readonly schema: { readonly openAPIV3Schema: Schema }
    }[]
  }
}

/** An object whose members are all named takes no others. */
function close(schema: Schema): void {
  if (
    schema.properties &&
    schema.additionalProperties === undefined &&
    !schema['x-kubernetes-preserve-unknown-fields']
  )
    schema.additionalProperties = false
  if (schema['x-kubernetes-int-or-string']) schema.type = ['integer', 'string']
  for (const inner of Object.values(schema.properties ?? {})) close(inner)
  if (schema.items) close(schema.items)
  if (typeof schema.additionalProperties === 'object') close(schema.additionalProperties)
}

function fromSwagger(folder: string, path: string): void {
  const { definitions } = JSON.parse(readFileSync(path, 'utf8')) as { definitions: Record<string, Schema> }
  for (const [name, schema] of Object.entries(definitions)) {
    close(schema)
    if (name.endsWith('.IntOrString')) definitions[name] = { type: ['integer', 'string'] }
    if (name.endsWith('.Quantity')) definitions[name] = { type: ['number', 'string'] }
  }
  const inFile = (schema: unknown) =>
    JSON.stringify(schema).replaceAll('"#/definitions/', '"_definitions.json#/definitions/')
  writeFileSync(join(folder, '_definitions.json'), JSON.stringify({ definitions }))
  for (const schema of Object.values(definitions))
    for (const { group, version, kind } of schema['x-kubernetes-group-version-kind'] ?? []) {
      const prefix = group === '' ? '' : `${group.split('.')[0] ?? ''}-`
      writeFileSync(join(folder, `${kind}-${prefix}${version}.json`.toLowerCase()), inFile(schema))
    }
}

function fromCrd(folder: string, path: string): void {
  for (const document of parseAllDocuments(readFileSync(path, 'utf8'))) {
    const { spec } = document.toJS() as Crd
    for (const { name, schema } of spec.versions) {
      const whole = schema.openAPIV3Schema
      close(whole)
      // The API server adds these itself.
      whole.properties = { ...whole.properties, metadata: { type: 'object' } }
      writeFileSync(join(folder, `${spec.names.kind}_${name}.json`.toLowerCase()), JSON.stringify(whole))
    }
  }
}

const [folder, ...sources] = process.argv.slice(2)
if (folder === undefined || sources.length === 0) throw new Error('expected a folder and at least one source')
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
for (const source of sources) (source.endsWith('.json') ? fromSwagger : fromCrd)(folder, source)
writeFileSync(join(folder, 'done'), '')
