// Anchors of headings, for the check of the documents and for their site.
/** The anchor of a heading, as GitHub makes it; the site uses the same. `taken` holds those of the page so far. */
export function slugOf(heading: string, taken = new Map<string, number>()): string {
  const slug = heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}\p{Pc} -]/gu, '')
    .replaceAll(' ', '-')
  const before = taken.get(slug) ?? 0
  taken.set(slug, before + 1)
  return before === 0 ? slug : `${slug}-${before}`
}
