package main

import "strings"

// mostWords is far beyond a sentence that one understands at first reading. (Aim at 25.)
const mostWords = 40

// long returns the sentences of a text with more than mostWords words. Code, tables and headings
// have no sentences. A sentence ends with its line if that is the last of a paragraph or list item.
func long(text string) (sentences [][]string) {
	var words []string
	fenced := false
	end := func() {
		if len(words) > mostWords {
			sentences = append(sentences, words)
		}
		words = nil
	}
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
			end()
			continue
		case fenced, trimmed == "", strings.HasPrefix(line, "\t"), strings.HasPrefix(trimmed, "|"), strings.HasPrefix(trimmed, "#"):
			end()
			continue
		case strings.HasPrefix(trimmed, "- "), numbered(trimmed):
			end()
		}
		for _, word := range strings.Fields(trimmed) {
			words = append(words, word)
			if text := strings.TrimRight(word, ")\"*'`"); strings.TrimRight(text, ".!?:;") != text {
				end()
			}
		}
	}
	end()
	return sentences
}

// numbered reports whether a line begins an item such as "2. " or "A12. ".
func numbered(line string) bool {
	first, _, _ := strings.Cut(line, " ")
	number, found := strings.CutSuffix(first, ".")
	return found && strings.Trim(number, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}
