;; The two loops of deflate (RFC 1951) that take twice the time in JavaScript: finding earlier
;; matches, and writing each token in its block's codes.
;; Names in capitals are numbers of layout.ts. `node scripts/wasm.ts` builds deflate-wasm.ts from this.
(module
  (memory (export "memory") PAGES)

  ;; Splits the piece from $at to $end into tokens, counts their symbols, and returns the end of the tokens. A token is
  ;;   a literal byte, or 256 for the end of the block, or
  ;;   a match: bits 27 to 31 the distance's symbol, 16 to 24 the length, 0 to 14 the distance minus one.
  ;; The last match of six bytes within 32 KiB is taken at once, even if a longer one might begin later.
  (func (export "tokenise") (param $at i32) (param $end i32) (result i32)
    (local $token i32) (local $last_eight i32) (local $slot i32) (local $before i32)
    (local $distance i32) (local $log i32) (local $symbol i32) (local $length i32) (local $most i32) (local $missed i32)
    (local $bytes i64) (local $differs i64)

    (memory.fill (i32.const LITERAL_COUNTS) (i32.const 0) (i32.const LITERAL_COUNTS_BYTES))
    (memory.fill (i32.const DISTANCE_COUNTS) (i32.const 0) (i32.const DISTANCE_COUNTS_BYTES))
    (memory.fill (i32.const PLACES) (i32.const 0) (i32.const PLACES_BYTES))
    (local.set $token (i32.const TOKENS))
    (local.set $last_eight (i32.sub (local.get $end) (i32.const 8)))

    (loop $next
      (block $literal
        (br_if $literal (i32.gt_s (local.get $at) (local.get $last_eight)))
        ;; In new data, such as the digits of an id, only every second byte is looked up.
        (br_if $literal (i32.and (i32.gt_u (local.get $missed) (i32.const 6)) (local.get $missed)))
        (local.set $bytes (i64.load (local.get $at)))
        (local.set $slot
          (i32.and
            (i32.wrap_i64
              (i64.shr_u
                (i64.mul (i64.shl (local.get $bytes) (i64.const 16)) (i64.const 0x9E3779B97F4A7C15))
                (i64.const 47)))
            (i32.const 0x1FFFC)))
        (local.set $before (i32.load offset=PLACES (local.get $slot)))
        (i32.store offset=PLACES (local.get $slot) (local.get $at))
        ;; With no earlier position this is the whole address, which is too far.
        (local.set $distance (i32.sub (local.get $at) (local.get $before)))
        (br_if $literal (i32.gt_u (local.get $distance) (i32.const 32768)))
        (local.set $differs (i64.xor (i64.load (local.get $before)) (local.get $bytes)))
        (br_if $literal (i64.ne (i64.shl (local.get $differs) (i64.const 16)) (i64.const 0)))

        ;; Length of the match: up to 258 bytes, and not beyond the piece.
        (local.set $most (i32.sub (local.get $end) (local.get $at)))
        (if (i32.gt_u (local.get $most) (i32.const 258))
          (then (local.set $most (i32.const 258))))
        (local.set $length (i32.const 0))
        (block $found
          (loop $longer
            (br_if $found (i64.ne (local.get $differs) (i64.const 0)))
            (local.set $length (i32.add (local.get $length) (i32.const 8)))
            (br_if $found (i32.ge_u (local.get $length) (local.get $most)))
            (local.set $differs
              (i64.xor
                (i64.load (i32.add (local.get $before) (local.get $length)))
                (i64.load (i32.add (local.get $at) (local.get $length)))))
            (br $longer)))
        (local.set $length
          (i32.add
            (local.get $length)
            (i32.wrap_i64 (i64.shr_u (i64.ctz (local.get $differs)) (i64.const 3)))))
        (if (i32.gt_u (local.get $length) (local.get $most))
          (then (local.set $length (local.get $most))))

        ;; RFC 1951 §3.2.5: after the first four, two symbols for each power of two.
        (local.set $symbol (i32.sub (local.get $distance) (i32.const 1)))
        (if (i32.ge_u (local.get $symbol) (i32.const 4))
          (then
            (local.set $log (i32.sub (i32.const 30) (i32.clz (local.get $symbol))))
            (local.set $symbol
              (i32.add
                (i32.shl (local.get $log) (i32.const 1))
                (i32.shr_u (local.get $symbol) (local.get $log))))))
        (i32.store (local.get $token)
          (i32.or
            (i32.or (i32.shl (local.get $symbol) (i32.const 27)) (i32.shl (local.get $length) (i32.const 16)))
            (i32.sub (local.get $distance) (i32.const 1))))
        (local.set $token (i32.add (local.get $token) (i32.const 4)))

        (local.set $slot (i32.load16_u offset=LENGTH_SLOTS (i32.shl (local.get $length) (i32.const 1))))
        (i32.store offset=LITERAL_COUNTS (local.get $slot)
          (i32.add (i32.load offset=LITERAL_COUNTS (local.get $slot)) (i32.const 1)))
        (local.set $slot (i32.shl (local.get $symbol) (i32.const 2)))
        (i32.store offset=DISTANCE_COUNTS (local.get $slot)
          (i32.add (i32.load offset=DISTANCE_COUNTS (local.get $slot)) (i32.const 1)))

        (local.set $at (i32.add (local.get $at) (local.get $length)))
        (local.set $missed (i32.const 0))
        (br $next))

      (local.set $missed (i32.add (local.get $missed) (i32.const 1)))
      (local.set $symbol (i32.const 256))
      (if (i32.lt_u (local.get $at) (local.get $end))
        (then (local.set $symbol (i32.load8_u (local.get $at)))))
      (i32.store (local.get $token) (local.get $symbol))
      (local.set $token (i32.add (local.get $token) (i32.const 4)))
      (local.set $slot (i32.shl (local.get $symbol) (i32.const 2)))
      (i32.store offset=LITERAL_COUNTS (local.get $slot)
        (i32.add (i32.load offset=LITERAL_COUNTS (local.get $slot)) (i32.const 1)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (i32.ne (local.get $symbol) (i32.const 256))))

    (local.get $token))

  ;; Writes the tokens up to $end in the block's codes, after the $count bits in $bits, and returns the end of the output.
  ;; An empty stored block follows (RFC 1951 §3.2.4), so that it ends on a byte boundary and the next one begins there.
  (func (export "write") (param $end i32) (param $to i32) (param $bits i64) (param $count i64) (result i32)
    (local $token_at i32) (local $token i32) (local $slot i32) (local $code i32) (local $extra i64)

    (local.set $token_at (i32.const TOKENS))
    (loop $next
      (local.set $token (i32.load (local.get $token_at)))
      (local.set $token_at (i32.add (local.get $token_at) (i32.const 4)))
      (if (i32.le_u (local.get $token) (i32.const 256))
        (then
          (local.set $code (i32.load offset=LITERAL_CODES (i32.shl (local.get $token) (i32.const 2))))
          (local.set $bits
            (i64.or (local.get $bits)
              (i64.shl (i64.extend_i32_u (i32.and (local.get $code) (i32.const 0xFFFF))) (local.get $count))))
          (local.set $count
            (i64.add (local.get $count) (i64.extend_i32_u (i32.shr_u (local.get $code) (i32.const 16))))))
        (else
          ;; The length: its symbol's code, and the extra bits that select the length.
          (local.set $code (i32.and (i32.shr_u (local.get $token) (i32.const 16)) (i32.const 511)))
          (local.set $slot (i32.load16_u offset=LENGTH_SLOTS (i32.shl (local.get $code) (i32.const 1))))
          (local.set $extra
            (i64.extend_i32_u (i32.sub (local.get $code) (i32.load offset=LENGTH_BASES (local.get $slot)))))
          (local.set $code (i32.load offset=LITERAL_CODES (local.get $slot)))
          (local.set $bits
            (i64.or (local.get $bits)
              (i64.shl (i64.extend_i32_u (i32.and (local.get $code) (i32.const 0xFFFF))) (local.get $count))))
          (local.set $count
            (i64.add (local.get $count) (i64.extend_i32_u (i32.shr_u (local.get $code) (i32.const 16)))))
          (local.set $bits (i64.or (local.get $bits) (i64.shl (local.get $extra) (local.get $count))))
          (local.set $count (i64.add (local.get $count) (i64.load32_u offset=LENGTH_EXTRAS (local.get $slot))))
          ;; The distance likewise: the extra bits are those below its highest bits.
          (local.set $slot (i32.shl (i32.shr_u (local.get $token) (i32.const 27)) (i32.const 2)))
          (local.set $code (i32.load offset=DISTANCE_CODES (local.get $slot)))
          (local.set $bits
            (i64.or (local.get $bits)
              (i64.shl (i64.extend_i32_u (i32.and (local.get $code) (i32.const 0xFFFF))) (local.get $count))))
          (local.set $count
            (i64.add (local.get $count) (i64.extend_i32_u (i32.shr_u (local.get $code) (i32.const 16)))))
          (local.set $extra (i64.load32_u offset=DISTANCE_EXTRAS (local.get $slot)))
          (local.set $bits
            (i64.or (local.get $bits)
              (i64.shl
                (i64.and
                  (i64.extend_i32_u (local.get $token))
                  (i64.sub (i64.shl (i64.const 1) (local.get $extra)) (i64.const 1)))
                (local.get $count))))
          (local.set $count (i64.add (local.get $count) (local.get $extra)))))
      ;; At most 48 bits were added to 7 left over: writes whole bytes and keeps the rest.
      (i64.store (local.get $to) (local.get $bits))
      (local.set $to (i32.add (local.get $to) (i32.wrap_i64 (i64.shr_u (local.get $count) (i64.const 3)))))
      (local.set $bits (i64.shr_u (local.get $bits) (i64.and (local.get $count) (i64.const 56))))
      (local.set $count (i64.and (local.get $count) (i64.const 7)))
      (br_if $next (i32.lt_u (local.get $token_at) (local.get $end))))

    ;; The remaining bits were written with the last whole bytes, followed by zeros.
    (local.set $to
      (i32.add (local.get $to) (i32.wrap_i64 (i64.shr_u (i64.add (local.get $count) (i64.const 10)) (i64.const 3)))))
    (i32.store (local.get $to) (i32.const 0xFFFF0000))
    (i32.add (local.get $to) (i32.const 4))))
