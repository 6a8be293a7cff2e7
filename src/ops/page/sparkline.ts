// An hour as a line: inline SVG, drawn on the server, its figures in words beside it.

const WIDTH = 240
const HEIGHT = 44
/** Room for half the line's width at the top and the bottom. */
const PAD = 2

const round = (value: number): number => Math.round(value * 100) / 100

/**
 * Values oldest first, the newest at the right edge; `steps` is how many the whole width holds, so that few values make a short line.
 * None of them below 0. The picture is decoration: what it says stands in words elsewhere.
 */
export function sparkline(values: readonly number[], steps: number): string {
  const top = Math.max(1, ...values)
  const pace = WIDTH / Math.max(1, steps - 1)
  const first = WIDTH - (values.length - 1) * pace
  const points = values.map((value, i) => {
    const y = HEIGHT - PAD - (value / top) * (HEIGHT - 2 * PAD)
    return `${round(first + i * pace)},${round(y)}`
  })
  const base = HEIGHT - PAD
  // A single value is a point, and a point is drawn only where the pen moves.
  const line = `M${points.join('L')}${points.length === 1 ? 'h0' : ''}`
  const area = `${line}L${WIDTH},${base}L${round(first)},${base}Z`
  return `<svg class="spark" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true" focusable="false">
<path class="base" d="M0,${base}H${WIDTH}"/><path class="area" d="${area}"/><path class="line" d="${line}"/></svg>`
}
