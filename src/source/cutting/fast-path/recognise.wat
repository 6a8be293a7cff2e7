;; Recognises objects of JSON that stand one behind the other, where nothing in them is unusual, sixteen bytes of a string at a time.
;; Names in capitals are numbers of layout.ts, or letters; `node scripts/wasm.ts` knows both and makes recognise-wasm.ts of this.
(module
  (memory (export "memory") PAGES)

  ;; Where the plain bytes of a string end: at a quote, a backslash, or what no string may hold. A zero stands behind the body.
  (func $plain_end (param $at i32) (result i32)
    (local $found i32) (local $bytes v128)
    (loop $next
      (local.set $bytes (v128.load (local.get $at)))
      (local.set $found
        (i8x16.bitmask
          (v128.or
            (i8x16.lt_u (local.get $bytes) (i8x16.splat (i32.const SPACE)))
            (v128.or
              (i8x16.eq (local.get $bytes) (i8x16.splat (i32.const QUOTE)))
              (i8x16.eq (local.get $bytes) (i8x16.splat (i32.const BACKSLASH)))))))
      (if (i32.eqz (local.get $found))
        (then
          (local.set $at (i32.add (local.get $at) (i32.const 16)))
          (br $next))))
    (i32.add (local.get $at) (i32.ctz (local.get $found))))

  ;; Where a string's closing quote stands, whatever escapes it holds; 0 where it has none, or is no string.
  (func $string_end (param $at i32) (result i32)
    (local $byte i32) (local $digits i32)
    (loop $plain
      (local.set $at (call $plain_end (local.get $at)))
      (local.set $byte (i32.load8_u (local.get $at)))
      (if (i32.eq (local.get $byte) (i32.const QUOTE))
        (then (return (local.get $at))))
      (if (i32.ne (local.get $byte) (i32.const BACKSLASH))
        (then (return (i32.const 0))))
      (local.set $byte (i32.load8_u offset=1 (local.get $at)))
      (local.set $at (i32.add (local.get $at) (i32.const 2)))
      (if (i32.eq (local.get $byte) (i32.const SMALL_U))
        (then
          (local.set $digits (i32.const 4))
          (loop $digit
            (if (i32.eqz (call $is_hex (i32.load8_u (local.get $at))))
              (then (return (i32.const 0))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br_if $digit (local.tee $digits (i32.sub (local.get $digits) (i32.const 1)))))
          (br $plain)))
      (br_if $plain (call $is_escape (local.get $byte))))
    (i32.const 0))

  (func $is_hex (param $byte i32) (result i32)
    (i32.or
      (call $is_digit (local.get $byte))
      (i32.lt_u
        (i32.sub (i32.or (local.get $byte) (i32.const SMALL)) (i32.const SMALL_A))
        (i32.const 6))))

  (func $is_digit (param $byte i32) (result i32)
    (i32.lt_u (i32.sub (local.get $byte) (i32.const ZERO)) (i32.const 10)))

  ;; RFC 8259 §7: quote, backslash, slash, b, f, n, r, t.
  (func $is_escape (param $byte i32) (result i32)
    (i32.or
      (i32.or
        (i32.or (i32.eq (local.get $byte) (i32.const QUOTE)) (i32.eq (local.get $byte) (i32.const BACKSLASH)))
        (i32.or (i32.eq (local.get $byte) (i32.const SLASH)) (i32.eq (local.get $byte) (i32.const SMALL_B))))
      (i32.or
        (i32.or (i32.eq (local.get $byte) (i32.const SMALL_F)) (i32.eq (local.get $byte) (i32.const SMALL_N)))
        (i32.or (i32.eq (local.get $byte) (i32.const SMALL_R)) (i32.eq (local.get $byte) (i32.const SMALL_T))))))

  ;; Behind a run of digits; 0 where there is none.
  (func $digits_end (param $at i32) (result i32)
    (if (i32.eqz (call $is_digit (i32.load8_u (local.get $at))))
      (then (return (i32.const 0))))
    (loop $next
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (call $is_digit (i32.load8_u (local.get $at)))))
    (local.get $at))

  ;; Behind a number (RFC 8259 §6) or a literal; 0 where neither stands.
  (func $scalar_end (param $at i32) (result i32)
    (local $byte i32)
    (local.set $byte (i32.load8_u (local.get $at)))
    (if (i32.eq (local.get $byte) (i32.const SMALL_T))
      (then
        (return
          (select
            (i32.add (local.get $at) (i32.const 4)) (i32.const 0)
            (i32.eq (i32.load (local.get $at)) (i32.const TRUE))))))
    (if (i32.eq (local.get $byte) (i32.const SMALL_N))
      (then
        (return
          (select
            (i32.add (local.get $at) (i32.const 4)) (i32.const 0)
            (i32.eq (i32.load (local.get $at)) (i32.const NULL))))))
    (if (i32.eq (local.get $byte) (i32.const SMALL_F))
      (then
        (return
          (select
            (i32.add (local.get $at) (i32.const 5)) (i32.const 0)
            (i32.eq (i32.load offset=1 (local.get $at)) (i32.const ALSE))))))

    (local.set $at (i32.add (local.get $at) (i32.eq (local.get $byte) (i32.const DASH))))
    ;; No digit stands behind a zero that a number begins with.
    (if (i32.eq (i32.load8_u (local.get $at)) (i32.const ZERO))
      (then (local.set $at (i32.add (local.get $at) (i32.const 1))))
      (else
        (if (i32.eqz (local.tee $at (call $digits_end (local.get $at))))
          (then (return (i32.const 0))))))
    (if (i32.eq (i32.load8_u (local.get $at)) (i32.const DOT))
      (then
        (if (i32.eqz (local.tee $at (call $digits_end (i32.add (local.get $at) (i32.const 1)))))
          (then (return (i32.const 0))))))
    (if (i32.eq (i32.or (i32.load8_u (local.get $at)) (i32.const SMALL)) (i32.const SMALL_E))
      (then
        (local.set $byte (i32.load8_u offset=1 (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $at
          (i32.add (local.get $at)
            (i32.or (i32.eq (local.get $byte) (i32.const PLUS)) (i32.eq (local.get $byte) (i32.const DASH)))))
        (return (call $digits_end (local.get $at)))))
    (local.get $at))

  ;; The first byte from $at on that is neither space nor tab.
  (func $skip_blanks (param $at i32) (result i32)
    (local $byte i32)
    (loop $next
      (local.set $byte (i32.load8_u (local.get $at)))
      (if (i32.or (i32.eq (local.get $byte) (i32.const SPACE)) (i32.eq (local.get $byte) (i32.const TAB)))
        (then
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br $next))))
    (local.get $at))

  ;; The same, line breaks too: between two objects they belong to neither.
  (func $skip_space (param $at i32) (result i32)
    (local $byte i32)
    (loop $next
      (local.set $at (call $skip_blanks (local.get $at)))
      (local.set $byte (i32.load8_u (local.get $at)))
      (if (i32.or (i32.eq (local.get $byte) (i32.const LF)) (i32.eq (local.get $byte) (i32.const CR)))
        (then
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br $next))))
    (local.get $at))

  ;; Where in its row the value stands whose key is the $bytes at $at; 0 for any but the three that are wanted.
  (func $place_of (param $at i32) (param $bytes i32) (result i32)
    (local $key i32)
    (local.set $key (i32.const KEYS))
    (loop $next
      (if (i32.eq (i32.load offset=KEY_LENGTH (local.get $key)) (local.get $bytes))
        (then
          (if
            (i32.eqz
              (v128.any_true
                (v128.or
                  (v128.and
                    (v128.xor (v128.load (local.get $at)) (v128.load (local.get $key)))
                    (v128.load offset=KEY_MASK (local.get $key)))
                  (v128.and
                    (v128.xor (v128.load offset=16 (local.get $at)) (v128.load offset=16 (local.get $key)))
                    (v128.load offset=KEY_MASK_REST (local.get $key))))))
            (then (return (i32.load offset=KEY_PLACE (local.get $key)))))))
      (local.set $key (i32.add (local.get $key) (i32.const KEY_BYTES)))
      (br_if $next (i32.lt_u (local.get $key) (i32.const KEYS_END))))
    (i32.const 0))

  ;; Behind the object that begins at $at and nests no deeper than $max_levels, 64 at most, its own braces the first; its row is
  ;; written. 0 where it does not end, is no JSON, or holds what is left to the scanner: a line break between its tokens, an
  ;; escape in one of its own keys or in the value of a wanted one.
  (func $object (param $at i32) (param $max_levels i32) (param $row i32) (result i32)
    (local $byte i32) (local $start i32) (local $slot i32) (local $level i32)
    ;; A bit a level, the innermost lowest: 1 where it is an object.
    (local $open_kinds i64)

    ;; It begins here; no id, time or type yet.
    (i32.store (local.get $row) (local.get $at))
    (i64.store offset=8 (local.get $row) (i64.const -1))
    (v128.store offset=16 (local.get $row) (v128.const i32x4 -1 -1 -1 -1))
    (local.set $level (i32.const 1))
    (local.set $open_kinds (i64.const 1))
    (local.set $at (i32.add (local.get $at) (i32.const 1)))

    ;; $member begins with a key, $value with a value, $after with what follows one.
    (loop $member
      (local.set $at (call $skip_blanks (local.get $at)))
      (if (i32.ne (i32.load8_u (local.get $at)) (i32.const QUOTE))
        (then (return (i32.const 0))))
      (local.set $start (i32.add (local.get $at) (i32.const 1)))
      (local.set $slot (i32.const 0))
      (if (i32.eq (local.get $level) (i32.const 1))
        (then
          (local.set $at (call $plain_end (local.get $start)))
          (if (i32.ne (i32.load8_u (local.get $at)) (i32.const QUOTE))
            (then (return (i32.const 0))))
          (local.set $slot
            (call $place_of (local.get $start) (i32.sub (local.get $at) (local.get $start))))
          (if (local.get $slot)
            (then (local.set $slot (i32.add (local.get $row) (local.get $slot))))))
        (else
          (if (i32.eqz (local.tee $at (call $string_end (local.get $start))))
            (then (return (i32.const 0))))))
      (local.set $at (call $skip_blanks (i32.add (local.get $at) (i32.const 1))))
      (if (i32.ne (i32.load8_u (local.get $at)) (i32.const COLON))
        (then (return (i32.const 0))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))

      (loop $value
        (local.set $at (call $skip_blanks (local.get $at)))
        (local.set $byte (i32.load8_u (local.get $at)))
        (if (i32.eq (local.get $byte) (i32.const QUOTE))
          (then
            (local.set $start (i32.add (local.get $at) (i32.const 1)))
            (if (local.get $slot)
              (then
                (local.set $at (call $plain_end (local.get $start)))
                (if (i32.ne (i32.load8_u (local.get $at)) (i32.const QUOTE))
                  (then (return (i32.const 0))))
                (i32.store (local.get $slot) (local.get $start))
                (i32.store offset=4 (local.get $slot) (local.get $at))
                (local.set $slot (i32.const 0)))
              (else
                (if (i32.eqz (local.tee $at (call $string_end (local.get $start))))
                  (then (return (i32.const 0))))))
            (local.set $at (i32.add (local.get $at) (i32.const 1))))
          (else
            ;; The last one of a key counts, also where it is no string.
            (if (local.get $slot)
              (then
                (i64.store (local.get $slot) (i64.const -1))
                (local.set $slot (i32.const 0))))
            ;; [ and { differ by that bit alone.
            (if (i32.eq (i32.or (local.get $byte) (i32.const SMALL)) (i32.const OPEN_OBJECT))
              (then
                (local.set $level (i32.add (local.get $level) (i32.const 1)))
                (if (i32.gt_u (local.get $level) (local.get $max_levels))
                  (then (return (i32.const 0))))
                (local.set $open_kinds
                  (i64.or
                    (i64.shl (local.get $open_kinds) (i64.const 1))
                    (i64.extend_i32_u (i32.eq (local.get $byte) (i32.const OPEN_OBJECT)))))
                (local.set $at (call $skip_blanks (i32.add (local.get $at) (i32.const 1))))
                ;; An empty one falls through to $after, which closes it; { and } and likewise [ and ] are two apart.
                (if (i32.ne (i32.load8_u (local.get $at)) (i32.add (local.get $byte) (i32.const 2)))
                  (then
                    (br_if $member (i32.eq (local.get $byte) (i32.const OPEN_OBJECT)))
                    (br $value))))
              (else
                (if (i32.eqz (local.tee $at (call $scalar_end (local.get $at))))
                  (then (return (i32.const 0))))))))

        (loop $after
          (local.set $at (call $skip_blanks (local.get $at)))
          (local.set $byte (i32.load8_u (local.get $at)))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (if (i32.eq (local.get $byte) (i32.const COMMA))
            (then
              (br_if $member (i32.wrap_i64 (i64.and (local.get $open_kinds) (i64.const 1))))
              (br $value)))
          (if
            (i32.ne
              (local.get $byte)
              (select (i32.const CLOSE_OBJECT) (i32.const CLOSE_ARRAY)
                (i32.wrap_i64 (i64.and (local.get $open_kinds) (i64.const 1)))))
            (then (return (i32.const 0))))
          (local.set $open_kinds (i64.shr_u (local.get $open_kinds) (i64.const 1)))
          (local.set $level (i32.sub (local.get $level) (i32.const 1)))
          (br_if $after (local.get $level)))))

    (local.get $at))

  ;; How many such objects stand from $at on, commas between them; a row for each, $max_objects at most.
  (func (export "objects") (param $at i32) (param $max_levels i32) (param $max_objects i32) (result i32)
    (local $row i32) (local $count i32)
    (local.set $row (i32.const ROWS))
    (loop $next
      (if (i32.eqz (local.tee $at (call $object (local.get $at) (local.get $max_levels) (local.get $row))))
        (then (return (local.get $count))))
      (i32.store offset=4 (local.get $row) (local.get $at))
      (local.set $row (i32.add (local.get $row) (i32.const ROW_BYTES)))
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (if (i32.lt_u (local.get $count) (local.get $max_objects))
        (then
          (local.set $at (call $skip_space (local.get $at)))
          (if (i32.eq (i32.load8_u (local.get $at)) (i32.const COMMA))
            (then
              (local.set $at (call $skip_space (i32.add (local.get $at) (i32.const 1))))
              (br_if $next (i32.eq (i32.load8_u (local.get $at)) (i32.const OPEN_OBJECT))))))))
    (local.get $count)))
