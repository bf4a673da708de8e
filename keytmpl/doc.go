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
// The package knows this syntax and nothing else. The middleware that uses a template knows
// what path, metadata or body mean. It checks [Template.Placeholders] once, at start, so that a
// name that does not exist stops the server and not a request. For every request it looks the
// values up, in the function that it passes to [Template.Key] or [Template.Keys].
//
// # Syntax
//
//	template    = [ text ] { placeholder text } [ placeholder ]
//	placeholder = "{" segment { "." segment } { "|" name } "}"
//	segment     = name [ "[*]" ]
//	name        = one or more of A-Z a-z 0-9 _ -
//
// There is no white space inside the braces. Text is valid UTF-8 without braces, percent signs
// and control characters. Two placeholders always have text between them. [*] stands for every
// element of a list and makes one key per element; a template has at most one. A template
// without placeholders is a constant key, for "only one of these in the whole fleet". An empty
// template is an error, and so is one of more than [MaxKeyBytes] bytes.
//
// # Different values, different keys
//
// Two requests share a key only if they mean the same thing. Suppose values were copied into
// the key unchanged. Then {a}:{b} would lock the same "x:y:z" for ("x:y", "z") and for ("x",
// "y:z"). A caller that chooses one of the values could block somebody else, or be taken for
// somebody else. So a value never contains, unescaped, what separates it from the next one.
// These are always written as %XX, in upper-case hex, one for each byte of UTF-8:
//
//   - the percent sign, the colon, the slash and braces,
//   - white space and control characters, of all of Unicode,
//   - bytes that are not valid UTF-8.
//
// A colon between placeholders is therefore enough, and is what templates should use. If the
// text between two placeholders has none of these characters, its first character is escaped,
// too, in the value before it: {a}-{b} renders ("2024-05", "x-y") as 2024%2D05-x-y.
//
// The slash separates levels for core.WithHierarchy, as in group:{group_id}/member:{user_id}.
// It is always escaped, so that no value adds a level: user "1/x" has the key
// group:7/member:1%2Fx.
//
// # Different spellings, one key
//
// Values are compared as text. So 5, 5.0 and 5e0 are three keys, "Ann" and "ann" are two, and
// so is "é" as one character or as an e with an accent behind it. If one thing may come in
// several spellings, add a filter that makes one spelling of them. A placeholder may have
// several filters, which apply from left to right:
//
//   - |int writes an integer in decimal digits. It reads what JSON or strconv.Atoi take for a
//     number, also with a fraction or an exponent if the value is an integer: 5.0, 50e-1 and
//     +05 become 5, and -0 becomes 0. It works on the text, so nothing is rounded above 2^53.
//     Anything else is [ErrNotInteger], and so is a number of more than 80 digits.
//   - |lower maps every letter to lower case as strings.ToLower does: one by one, the same for
//     all languages. It is no case folding: "ß" and "SS" stay different.
//   - |nfc puts text into Unicode's normal form C, in a program that imports the package
//     keytmpl/nfc. Use |nfc|lower for names that people type.
//   - |hash, always the last one, makes the SHA-256 digest; see below.
//
// |lower and |nfc refuse bytes that are not UTF-8 ([ErrNotText]). A program can add filters of
// its own ([Register]).
//
// With filters, different values make different keys only as far as the filters keep them
// apart.
//
// All this holds within one template. user:{id} in one service and user:{path.id} in another
// make the same keys, as they should. The templates {id} and {name} also make the same keys, by
// accident. So begin each template with a word for the kind of thing that it locks.
//
// The result is always a valid key: UTF-8, 1 to [MaxKeyBytes] bytes, no control characters, no
// braces. In a rendered key a percent sign always begins an escape. Therefore text cannot
// contain one.
//
// # Missing, empty and long values
//
// An empty value counts as missing: [ErrMissingValue]. Otherwise every request without a
// tenant, or without an id, would share one lock. For the same reason a list without elements
// is an error. "No keys" would mean no lock.
//
// A key that would be too long is refused ([ErrTooLong]), never cut: a cut would make different
// values equal. A placeholder with |hash is replaced by the SHA-256 digest of its value, in 64
// lower-case hex digits, computed over the bytes of the value before any escaping. sha256sum
// prints the same, so a service in another language can compute the same key. The digest is not
// shortened, because values come from outside: with 128 of the 256 bits, an attacker could find
// two values with the same digest in 2^64 tries.
package keytmpl
