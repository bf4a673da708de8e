// Package keytmpl makes lock keys out of request values.
//
// A template is literal text with placeholders in braces:
//
//	user:status:{user_id}
//	group:{group.id}:{metadata.x-tenant}
//	group:{members[*].id}
//	import:{body|hash}
//	order:{payload.id|int}
//
// The package knows this syntax and nothing else. What path, metadata or body
// mean is the business of the middleware that uses the template: it checks
// [Template.Placeholders] once, at start, so that a name which does not exist
// stops the server and not a request, and it looks the values up for every
// request in the function that it hands to [Template.Key] or [Template.Keys].
//
// # Syntax
//
//	template    = [ text ] { placeholder text } [ placeholder ]
//	placeholder = "{" segment { "." segment } { "|" name } "}"
//	segment     = name [ "[*]" ]
//	name        = one or more of A-Z a-z 0-9 _ -
//
// White space has no place inside the braces. Text is valid UTF-8 without
// braces, percent signs and control characters. Two placeholders always have
// text between them. [*] stands for every element of a list and makes one key
// per element; a template has at most one. A template without any placeholder
// is a constant key, which is what "only one of these in the whole fleet" needs.
// An empty template is an error, and so is one of more than [MaxKeyBytes] bytes.
//
// # Different values, different keys
//
// Two requests share a key only if they mean the same thing. Were values copied
// into the key as they come, {a}:{b} would lock the same "x:y:z" for
// ("x:y", "z") and for ("x", "y:z"), and whoever chooses one value could block,
// or be taken for, somebody else. So a value never contains, unescaped, what
// separates it from the next one. Always written as %XX, upper-case hex, one for
// each byte of UTF-8, are
//
//   - the percent sign, the colon, the slash and braces,
//   - white space and control characters, of all of Unicode,
//   - bytes that are not valid UTF-8.
//
// A colon between placeholders is therefore all it takes, and is what templates
// should use. Where a text between two placeholders holds none of these, its
// first character is escaped too, in the value before it: {a}-{b} renders
// ("2024-05", "x-y") as 2024%2D05-x-y.
//
// The slash separates levels for core.WithHierarchy, as in
// group:{group_id}/member:{user_id}: it is always escaped, so that no value adds
// a level. Whoever is user "1/x" then has the key group:7/member:1%2Fx.
//
// # Different spellings, one key
//
// Values are compared as text. So 5, 5.0 and 5e0 are three keys, "Ann" and "ann" are
// two, and so is "é" as one character or as an e with an accent behind it. Where the
// same thing may come in several spellings, name what makes one of them. A
// placeholder may have several filters, which apply from left to right:
//
//   - |int writes an integer in decimal digits. It reads what JSON or strconv.Atoi
//     take for a number, with a fraction or an exponent if the value is integral all
//     the same, and goes by the text, so that nothing is rounded above 2^53: 5.0, 50e-1
//     and +05 become 5, and -0 becomes 0. Anything else is [ErrNotInteger], and so is a
//     number of more than 80 digits.
//   - |lower maps every letter to lower case as strings.ToLower does: one by one, the
//     same for all languages. It is no case folding: "ß" and "SS" stay different.
//   - |nfc, in the middlewares' templates, puts text into Unicode's normal form C. Use
//     |nfc|lower for names that people type.
//   - |hash, always the last one, makes the SHA-256 digest; see below.
//
// |lower and |nfc refuse bytes that are not UTF-8 ([ErrNotText]). A program that uses
// this package itself can add filters of its own ([Filter]).
//
// Different values then make different keys as far as the filters keep them apart.
//
// All this is about one template. user:{id} in one service and user:{path.id} in
// another make the same keys, which is the point; {id} and {name} alone do so by
// accident. Begin each template with a word for the kind of thing it locks.
//
// What comes out is always a valid key: UTF-8, 1 to [MaxKeyBytes] bytes, no
// control characters, no braces. In a rendered key a percent sign is always the
// start of an escape, which is why text can't contain one.
//
// # Missing, empty and long values
//
// An empty value is a missing one: [ErrMissingValue]. Rendered as it is, it
// would put every request without a tenant, or without an id, under one lock.
// For the same reason a list without elements is an error and not "no keys",
// which would be no lock.
//
// A key that would be too long is refused ([ErrTooLong]), never cut: cutting
// makes different values equal. A placeholder with |hash is replaced by the
// SHA-256 digest of its value, in 64 lower-case hex digits, computed over the
// bytes of the value before any escaping; it is what sha256sum prints, so that a
// service in another language can compute the same key. The digest is not
// shortened: values come from outside, and with 128 of the 256 bits two values
// with the same digest could be found by whoever has 2^64 tries to spend.
package keytmpl
