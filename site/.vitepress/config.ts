// The documents as a site: every page of docs/ and the pages they link to, with search. Run `npm run docs` at the root.
import { cpSync, existsSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { defineConfig } from 'vitepress'
import { slugOf } from '../../scripts/slug.ts'

const root = resolve(import.meta.dirname, '../..')
/** Copies of the pages, where Vite finds this package's Vue beside them. */
const pages = join(root, 'site/pages')

/** The pages outside docs/, and where the site has them. */
const others: Readonly<Record<string, string>> = {
  'README.md': 'overview.md',
  'CHANGELOG.md': 'changes.md',
  'CONTRIBUTING.md': 'contributing.md',
  'SECURITY.md': 'security.md',
  'src/mock/README.md': 'mock-api.md',
  'test/README.md': 'tests.md',
  'test/conformance/README.md': 'conformance.md',
  'helm/auditferry/README.md': 'deploy/helm.md',
  'helm/auditferry/UPGRADING.md': 'deploy/helm-upgrading.md',
}

rmSync(pages, { recursive: true, force: true })
for (const path of ['docs', ...Object.keys(others)])
  cpSync(join(root, path), join(pages, path), { recursive: true })

/** Where the site has a Markdown file of the repository. */
function sitePath(file: string): string {
  return others[file] ?? file.replace(/^docs\//, '').replace(/(^|\/)README\.md$/, '$1index.md')
}

const titleOf = (file: string) =>
  (/^# (.+)$/m.exec(readFileSync(join(root, file), 'utf8'))?.[1] ?? file).replaceAll('`', '')

const item = (file: string) => ({
  text: titleOf(file),
  link: `/${sitePath(file)
    .replace(/(^|\/)index\.md$/, '$1')
    .replace(/\.md$/, '')}`,
})

const topic = (text: string, ...files: string[]) => ({ text, collapsed: true, items: files.map(item) })

/** Every page of a folder of docs, its README first. */
const folder = (name: string) =>
  readdirSync(join(root, 'docs', name))
    .filter((file) => file.endsWith('.md'))
    .sort((a, b) => Number(b === 'README.md') - Number(a === 'README.md') || a.localeCompare(b))
    .map((file) => `docs/${name}/${file}`)

const topLevel = (...names: string[]) => names.map((name) => `docs/${name}.md`)

const sidebar = [
  topic('Start', 'README.md', ...topLevel('getting-started', 'configuration', 'commands', 'faq')),
  topic('Deploy', ...folder('deploy'), 'helm/auditferry/README.md', 'helm/auditferry/UPGRADING.md'),
  topic('Sources', ...folder('sources'), ...topLevel('records', 'open-questions')),
  topic('Sinks', ...folder('sinks'), ...topLevel('formats', 'content-policy')),
  topic('Operate', ...topLevel('operations'), ...folder('operations'), ...topLevel('tracing', 'benchmarks')),
  topic('Runbooks', ...folder('runbooks')),
  topic(
    'Trust',
    ...topLevel('guarantees', 'failures', 'evidence', 'threat-model', 'planted-bugs'),
    'SECURITY.md',
  ),
  topic(
    'Develop',
    ...['CONTRIBUTING.md', 'test/README.md', 'test/conformance/README.md', 'src/mock/README.md'],
    ...topLevel('architecture', 'write-a-sink'),
    'CHANGELOG.md',
  ),
  topic('Decisions', ...folder('decisions')),
]

/** A link of the repository as the site has it; undefined for a file or folder that is no page. */
function siteLink(href: string, from: string): string | undefined {
  if (/^([a-z]+:|#|\/)/.test(href)) return href
  const [path = '', anchor] = href.split('#')
  const target = resolve(root, dirname(relative(pages, from)), path)
  if (!path.endsWith('.md')) return existsSync(target) ? undefined : href
  const page = `/${sitePath(relative(root, target))}`
  return anchor === undefined ? page : `${page}#${anchor}`
}

export default defineConfig({
  title: 'Auditferry',
  description: 'Ships the audit log of a workspace into a SIEM.',
  srcDir: 'pages',
  rewrites: sitePath,
  outDir: 'dist',
  cacheDir: '.vitepress/cache',
  // No font, icon or script from elsewhere.
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  themeConfig: {
    sidebar,
    nav: [
      { text: 'Overview', link: '/overview' },
      { text: 'Getting started', link: '/getting-started' },
      { text: 'Configuration', link: '/configuration' },
      { text: 'Runbooks', link: '/runbooks/' },
    ],
    outline: [2, 3],
    search: { provider: 'local' },
  },
  markdown: {
    // Links name anchors as GitHub makes them; the anchor plugin numbers repeated ones itself.
    anchor: { slugify: (heading) => slugOf(heading) },
    // The table of contents has its own setting.
    headers: { slugify: (heading) => slugOf(heading) },
    // GitHub resolves links by file; the site has other addresses, and no page for sources and folders.
    config: (md) => {
      md.core.ruler.push('repository-links', (state) => {
        const { realPath, path } = state.env as { realPath?: string; path: string }
        for (const block of state.tokens) {
          const { children } = block
          // Vite takes an image for a package unless its path begins with a dot.
          if (block.type === 'html_block')
            block.content = block.content.replace(/(src|srcset)="(?=\w)(?!https?:)/g, '$1="./')
          for (const [index, token] of (children ?? []).entries()) {
            const href = token.type === 'link_open' ? token.attrGet('href') : null
            if (href === null) continue
            const link = siteLink(href, realPath ?? path)
            if (link !== undefined) token.attrSet('href', link)
            else {
              const close = children?.slice(index).find((later) => later.type === 'link_close')
              for (const edge of [token, close])
                if (edge) Object.assign(edge, { type: 'text', tag: '', nesting: 0, content: '' })
            }
          }
        }
      })
    },
  },
})
