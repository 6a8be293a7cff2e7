// scripts/docs-check.ts: which links, lengths and pages it refuses, and in which words.
import { describe, expect, test } from 'vitest'
import { anchorsIn, docsFaults, pageFaults } from '../../../scripts/docs-check.ts'
import { slugOf } from '../../../scripts/slug.ts'

const words = (count: number) => Array.from({ length: count }, () => 'word').join(' ')

const faultsOf = (files: Readonly<Record<string, string>>, page = 'docs/a.md') =>
  pageFaults(page, (path) => files[path])

describe('links', () => {
  test.each([
    ['a file that is there', '[x](b.md)', []],
    ['a heading that is there', '[x](b.md#how-it-works)', []],
    ['a heading of the same page', '# Top\n\n[x](#top)', []],
    ['a file above the folder, named with a dot', '[x](./../src/c.ts)', []],
    ['another site', '[x](https://example.com/no)', []],
    ['an id in HTML', '[x](b.md#by-id)', []],
    ['an example in a block of code', '```md\n[x](no.md)\n```', []],
    ['a file that is not there', 'x\n\n[x](no.md)', ['docs/a.md:3: the link no.md leads to no file']],
    ['a heading that is not there', '[x](b.md#no)', ['docs/a.md:1: docs/b.md has no heading #no']],
    ['an own heading that is not there', '[x](#no)', ['docs/a.md:1: docs/a.md has no heading #no']],
    ['an image that is not there', '![x](no.png)', ['docs/a.md:1: the link no.png leads to no file']],
    ['an image in HTML', '<p><img src="no.png"></p>', ['docs/a.md:1: the link no.png leads to no file']],
    ['in a table', '| a |\n| --- |\n| [x](no.md) |', ['docs/a.md:3: the link no.md leads to no file']],
  ])('%s', (_, text, expected) => {
    const other = '# Other\n\n## How it `works`?\n\n<a id="by-id"></a>'
    expect(faultsOf({ 'docs/a.md': text, 'docs/b.md': other, 'src/c.ts': '' })).toEqual(expected)
  })

  test('anchors are those of GitHub, numbered where a heading repeats', () => {
    expect(slugOf('`sinks[]` of type `s3`: what’s new?')).toBe('sinks-of-type-s3-whats-new')
    expect(anchorsIn('# One\n\n## One\n\n```\n# no\n```\n')).toEqual(new Set(['one', 'one-1']))
  })
})

describe('lengths', () => {
  test('a paragraph of 90 words passes, one of 91 does not; the address of a link is no word', () => {
    expect(faultsOf({ 'docs/a.md': `[${words(90)}](https://example.com/)\n\n- ${words(90)}` })).toEqual([])
    expect(faultsOf({ 'docs/a.md': `# A\n\n- one\n- ${words(50)}\n  ${words(41)}\n` })).toEqual([
      'docs/a.md:4: a paragraph has 91 words; 90 are allowed',
    ])
  })

  test('a table cell of 40 words passes, one of 41 does not', () => {
    const table = `| a | b |\n| --- | --- |\n| ${words(40)} | b |\n| a | ${words(41)} |\n`
    expect(faultsOf({ 'docs/a.md': table })).toEqual([
      'docs/a.md:4: a table cell has 41 words; 40 are allowed',
    ])
  })

  test('code and the list of changes have no limit', () => {
    expect(faultsOf({ 'docs/a.md': `\`\`\`\n${words(91)}\n\`\`\`` })).toEqual([])
    expect(faultsOf({ 'CHANGELOG.md': words(91) }, 'CHANGELOG.md')).toEqual([])
  })

  test('README and architecture have limits of their own, docs one in all', () => {
    const paragraphs = (count: number) => Array.from({ length: count }, () => words(50)).join('\n\n')
    const files: Record<string, string> = {
      'README.md': paragraphs(15),
      'docs/architecture.md': paragraphs(25),
      'docs/z.md': paragraphs(736),
    }
    expect(docsFaults(Object.keys(files), (path) => files[path])).toEqual([
      'README.md:1: the page has 750 words; 700 are allowed',
      'docs/architecture.md:1: the page has 1250 words; 1200 are allowed',
      'docs:1: all pages have 38050 words; 38000 are allowed',
    ])
  })
})
