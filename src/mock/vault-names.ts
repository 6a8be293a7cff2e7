// What projects, folders and files of the mock's vault are called, and which formats may be uploaded (spec §2.6).
import type { Random } from '../model/clock.ts'
import { below, pick } from './random.ts'

const contentTypes: Readonly<Record<string, string>> = {
  doc: 'application/msword',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  xls: 'application/vnd.ms-excel',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  ppt: 'application/vnd.ms-powerpoint',
  pptx: 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
  txt: 'text/plain',
  md: 'text/markdown',
  html: 'text/html',
  csv: 'text/csv',
  rtf: 'application/rtf',
  xml: 'application/xml',
  eml: 'message/rfc822',
  msg: 'application/vnd.ms-outlook',
  jpeg: 'image/jpeg',
  png: 'image/png',
  tiff: 'image/tiff',
  c: 'text/x-c',
  cpp: 'text/x-c++',
  java: 'text/x-java',
  js: 'text/javascript',
  json: 'application/json',
  php: 'application/x-php',
  py: 'text/x-python',
  tex: 'application/x-tex',
  ts: 'text/x-typescript',
  rb: 'text/x-ruby',
  css: 'text/css',
}

/** Undefined when files of that name cannot be uploaded. */
export function contentTypeOf(fileName: string): string | undefined {
  const extension = /\.([a-z]+)$/i.exec(fileName)?.[1]?.toLowerCase() ?? ''
  return Object.hasOwn(contentTypes, extension) ? contentTypes[extension] : undefined
}

const matters = 'Alder Birch Cedar Dogwood Elm Fir Ginkgo Hazel Juniper Larch Maple Oak'.split(' ')
const works = ['acquisition', 'lease review', 'due diligence', 'arbitration', 'financing', 'tender', 'audit']
const bases = ['Precedents', 'Clause library', 'Playbooks', 'Know-how', 'Market terms']
/** Legal, and careless readers break. */
const unusual = ['Žluťoučký kůň 法務 🦀', 'R&D "Phase 2" \\ final', ' leading and trailing ', 'شركة / 2026']

export function projectName(random: Random, knowledgeBase: boolean): string {
  if (random() < 0.05) return pick(random, unusual)
  if (knowledgeBase) return `${pick(random, bases)} ${below(random, 9) + 1}`
  return `Project ${pick(random, matters)} ${pick(random, works)}`
}

const folders = ['', '', 'Contracts', 'Contracts/Signed', 'Correspondence', 'Data room/Finance']
const documents = ['Agreement', 'Amendment', 'Minutes', 'Memo', 'Schedule', 'Disclosure letter', 'Invoice']
const usual = ['docx', 'docx', 'docx', 'xlsx', 'pptx', 'eml', 'msg', 'txt', 'csv', 'tiff']

export interface NewFile {
  readonly name: string
  readonly folder: string
  readonly sizeBytes: number
}

export function someFile(random: Random): NewFile {
  return {
    name: `${pick(random, documents)} ${below(random, 900) + 100}.${pick(random, usual)}`,
    folder: pick(random, folders),
    sizeBytes: 2_000 + Math.floor(random() ** 4 * 40e6),
  }
}

export function reviewTitle(random: Random): string {
  return `${pick(random, documents)} review ${below(random, 90) + 10}`
}
