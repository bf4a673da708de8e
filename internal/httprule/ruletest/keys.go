package ruletest

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"
)

// MultipartBody makes a form with these fields, and a file of 100 kB.
func MultipartBody(t testing.TB, fields ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	file, err := w.CreateFormFile("file", "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(file, strings.Repeat("x", 100_000))
	w.Close()
	return b.String(), w.FormDataContentType()
}
