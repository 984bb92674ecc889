;;; agent_shell.el --- Drives agent-shell with `tau acp'  -*- lexical-binding: t; -*-

;; The task is in $EDITOR_TASK; a line per step is appended to its file of results, as neovim.lua does.

(require 'json)
(require 'seq)
(require 'map)
(require 'agent-shell)

(defvar task (json-parse-string (getenv "EDITOR_TASK") :object-type 'alist :array-type 'list))
(defvar work (alist-get 'work task))
(defvar shell-buffer nil)
(defvar question nil "What the last question shows, and the function that answers it.")

(defun report (step state &optional seen)
  (write-region (concat (json-serialize (vector step state (or seen ""))) "\n") nil (alist-get 'results task) t 'quiet))

(defun until-true (check &optional seconds)
  (let ((end (+ (float-time) (or seconds 20))) (found nil))
    (while (and (not (setq found (funcall check))) (< (float-time) end))
      (accept-process-output nil 0.05))
    found))

(defun has (words)
  (with-current-buffer shell-buffer
    (string-search words (buffer-substring-no-properties (point-min) (point-max)))))

(defun tail ()
  (with-current-buffer shell-buffer
    (buffer-substring-no-properties (max (point-min) (- (point-max) 500)) (point-max))))

(defun made (name) (file-exists-p (expand-file-name name work)))

(defun prompt (text)
  (until-true (lambda () (with-current-buffer shell-buffer (not (shell-maker-busy)))))
  (agent-shell-insert :text text :submit t :no-focus t :shell-buffer shell-buffer))

(defun idle ()
  (until-true (lambda () (with-current-buffer shell-buffer (not (shell-maker-busy))))))

;; The dialog is the buttons in the buffer; this sees the same call and gives the same answer as they.
(setq agent-shell-permission-responder-function
      (lambda (permission)
        (setq question permission)
        t))

(defun answer (words kind)
  "Answer the next question with the option of KIND. Returns what is wrong, or nil."
  (if (not (until-true (lambda () question)))
      (format "no question: %s" (tail))
    (sleep-for (alist-get 'late task))
    (setf (alist-get 'late task) 0)
    (let ((shown (format "%S" (map-elt question :tool-call)))
          (option (seq-find (lambda (one) (equal (map-elt one :kind) kind)) (map-elt question :options)))
          (respond (map-elt question :respond)))
      (setq question nil)
      (funcall respond (map-elt option :option-id))
      (unless (string-search words shown) (format "the question does not show %s: %s" words shown)))))

(defmacro step (name &rest body)
  "BODY returns nil, or what is wrong."
  `(let ((wrong (condition-case problem (progn ,@body) (error (error-message-string problem)))))
     (report ,name (if wrong "bad" "ok") (and wrong (format "%s" wrong)))))

(defun start (&optional session)
  (let* ((command (alist-get 'command task))
         (default-directory (file-name-as-directory work)))
    (setq shell-buffer
          (agent-shell--start
           :config (agent-shell-make-agent-config
                    :identifier 'tau :mode-line-name "tau" :buffer-name "tau"
                    :shell-prompt "tau> " :shell-prompt-regexp "tau> "
                    :client-maker (lambda (buffer)
                                    (agent-shell--make-acp-client
                                     :command (car command) :command-params (cdr command) :context-buffer buffer)))
           :no-focus t :new-session t :session-strategy 'new :session-id session))
    (until-true (lambda () (with-current-buffer shell-buffer
                             (map-nested-elt (agent-shell--state) '(:session :id)))))))

(defun choose (name)
  "Answer the next menus with the entry that contains NAME."
  (fset 'completing-read
        (lambda (_ entries &rest _ignored)
          (seq-find (lambda (entry) (string-search name entry)) entries))))

(setq debug-on-error nil)
(step "start" (unless (start) (tail)))
(step "prompt" (prompt "say hello") (unless (until-true (lambda () (has "Hello from the model."))) (tail)))
(step "question" (prompt "run it")
      (or (answer "touch ran" "allow_once")
          (unless (until-true (lambda () (made "ran"))) (tail))))
(idle)
(step "deny" (prompt "deny it")
      (or (answer "touch denied" "reject_once") (idle) (when (made "denied") "it ran")) nil)
(idle)
(step "diff" (prompt "edit it")
      (or (answer ":diffs" "allow_once")
          (unless (until-true (lambda () (with-temp-buffer
                                           (insert-file-contents (expand-file-name "a.txt" work))
                                           (string-search "2" (buffer-string)))))
            (tail))))
(idle)
(step "error" (prompt "fail") (unless (until-true (lambda () (has "the parameter x is wrong"))) (tail)))
(idle)
(step "cancel" (prompt "wait")
      (or (answer "touch waiting" "allow_once")
          (unless (until-true (lambda () (made "waiting"))) "it did not run")
          (progn (with-current-buffer shell-buffer (agent-shell-interrupt t)) nil)
          (unless (idle) "it is still busy")))
(step "model"
      (choose "Two")
      (with-current-buffer shell-buffer (agent-shell-set-session-model))
      (sleep-for 1)
      (prompt "who")
      (unless (until-true (lambda () (has "I am two."))) (tail)))
(idle)
(step "mode"
      (choose "Auto")
      (with-current-buffer shell-buffer (agent-shell-set-session-mode))
      (sleep-for 1)
      (prompt "run again")
      (unless (and (until-true (lambda () (made "again"))) (not question)) (tail)))
(idle)
(step "commands"
      (unless (seq-find (lambda (one) (equal (map-elt one 'name) "compact"))
                        (with-current-buffer shell-buffer (map-elt (agent-shell--state) :available-commands)))
        "compact is not there"))
(let ((id (with-current-buffer shell-buffer (map-nested-elt (agent-shell--state) '(:session :id))))
      (old shell-buffer))
  (report "list" "-")
  (let ((kill-buffer-query-functions nil)) (kill-buffer old))
  (sleep-for 1)
  (step "load" (start id)
        (unless (equal id (with-current-buffer shell-buffer (map-nested-elt (agent-shell--state) '(:session :id)))) (tail))))
(kill-emacs 0)
