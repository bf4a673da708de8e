package sqlstore

import (
	"fmt"
	"strconv"
	"strings"
)

// mostLiteral is how many bytes an argument may have that becomes a part of a statement.
const mostLiteral = 1024

// literally makes the arguments a part of the statement, for MySQL: its usual driver prepares each
// statement that has arguments, which is a round trip more. A statement stays as it is if an argument
// is long.
func literally(query string, args []any) (string, []any) {
	texts := make([]string, len(args))
	for i, arg := range args {
		var ok bool
		if texts[i], ok = literal(arg); !ok {
			return query, args
		}
	}
	i := -1
	return fill(query, func(b *strings.Builder) {
		i++
		b.WriteString(texts[i])
	}), nil
}

// literal is an argument as SQL. Texts are in hexadecimal digits, so they can't be taken for anything
// else.
func literal(arg any) (text string, ok bool) {
	switch v := arg.(type) {
	case int64:
		return strconv.FormatInt(v, 10), true
	case string:
		return literal([]byte(v))
	case []byte:
		if v == nil {
			return "NULL", true
		}
		return fmt.Sprintf("x'%x'", v), len(v) <= mostLiteral
	}
	return "", false
}
