// Never tagged: a browser is only for these tests.
module github.com/keyturn/keyturn/console/browsertest

go 1.25.0

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/keyturn/keyturn v0.0.0-00010101000000-000000000000
)

require github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect

replace github.com/keyturn/keyturn => ../../
